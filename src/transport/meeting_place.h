// Where the ranks of a job meet. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ucudnn::transport {

// tcp://host:port, or file:PATH, in which rank 0 tells where it listens (meeting_file.h).
struct MeetingPlace {
  std::string host;   // a name or a numeric address; without the brackets of an IPv6 address
  uint16_t port = 0;  // 0: `file` says it
  std::string file;   // empty: `host` and `port` say it

  bool in_file() const { return !file.empty(); }
  // As ParseMeetingPlace reads it.
  std::string Text() const;
};

// Refuses what is neither tcp://host:port (1 to 65535; tcp://[::1]:1 for IPv6) nor file:PATH, an
// absolute path, since ranks may have different working folders.
Result<MeetingPlace> ParseMeetingPlace(std::string_view text);

// The port of ours for a job whose launcher listens on `launcher_port` (MASTER_PORT):
//   10000 + (launcher_port - 10000 + 7919) mod 22768,
// which is never the launcher's own, another one for neighbouring ports, and from 10000 to 32767,
// below the ports that Linux gives to outgoing connections.
uint16_t PortBesideLauncher(uint16_t launcher_port);

}  // namespace ucudnn::transport
