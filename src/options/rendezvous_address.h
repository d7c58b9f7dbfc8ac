// The place where the ranks of a job meet. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ucudnn {

// Either a port of a host, or a file that all ranks can read. Rank 0 writes its own address into
// that file.
struct RendezvousAddress {
  std::string host;  // a name or an address, IPv6 without brackets; empty: `path` is set
  uint16_t port = 0;
  std::string path;  // absolute, because ranks may have different working folders

  // Parses "tcp://HOST:PORT" (ports 1 to 65535; "tcp://[::1]:1" for IPv6) or "file:PATH".
  static Result<RendezvousAddress> Parse(std::string_view text);
  std::string Text() const;
  bool in_file() const { return !path.empty(); }
};

}  // namespace ucudnn
