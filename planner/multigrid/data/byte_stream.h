// A ByteSource from its first byte to its last, as it is or inflated by zlib. Thread-compatible.
// A stream's source outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "planner/multigrid/data/byte_source.h"

namespace ucudnn::multigrid {

enum class Packing { kNone, kDeflate, kGzip };

// Deflate's shortest code for its longest match: two bits that stand for 258 bytes. What says that
// it holds more than this many times its own bytes does not.
inline constexpr uint64_t kMostInflation = 1032;

// Whether `packed` bytes can hold `unpacked` bytes.
bool CanHold(Packing packing, uint64_t packed, uint64_t unpacked);

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // The next bytes. The error is one line that begins with the source's name: the stream ends
  // before `bytes` is full, it is no deflated data, or the source cannot be read.
  virtual Status Read(std::span<char> bytes) = 0;
  // Succeeds when nothing is left: neither of what was packed nor bytes of the source behind it.
  virtual Status Finish() = 0;
};

std::unique_ptr<ByteStream> MakeByteStream(const ByteSource& source, Packing packing);

}  // namespace ucudnn::multigrid
