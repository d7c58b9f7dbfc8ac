// The members of a zip file, as numpy.savez and numpy.savez_compressed write them: stored or
// deflated, with zip64 records or without. Read by hand and not by a library: of zip this is one
// page, zlib does the inflating, and what those libraries do with files made to mislead (members
// that share bytes, headers that contradict each other) cannot be said for each release of them;
// Debian's libzip also brings bzip2, lzma, zstd and a TLS library. Thread-compatible.
// Source: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/data/byte_source.h"
#include "planner/multigrid/data/byte_stream.h"

namespace ucudnn::multigrid {

struct ZipMember {
  std::string name;  // as it is in the file: any bytes but control characters
  Packing packing = Packing::kNone;
  uint64_t offset = 0;  // of its packed bytes in the file
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;     // CanHold(packing, packed_bytes, bytes)
  uint32_t checksum = 0;  // CRC-32 of the unpacked bytes
};

// In the order of the file's directory. The error is one line with the file, the member and what is
// wrong: no zip file, encrypted members, other methods of compression, two members of one name,
// members that overlap, directory and members that contradict each other, or sizes that the file
// cannot hold. No memory is taken for what members promise.
Result<std::vector<ZipMember>> ReadZipDirectory(const ByteSource& file);

// The unpacked bytes of one member. `file` outlives it.
class ZipMemberStream {
 public:
  ZipMemberStream(const ByteSource& file, const ZipMember& member);

  // The next bytes. Errors name the file and the member.
  Status Read(std::span<char> bytes);
  // Succeeds when all were read and their checksum is right.
  Status Finish();
  uint64_t left() const { return left_; }

  Status Fault(const std::string& what) const { return packed_.Fault(what); }

 private:
  const PartOfBytes packed_;
  const std::unique_ptr<ByteStream> stream_;
  const uint32_t expected_checksum_;
  uint64_t left_;
  uint32_t checksum_ = 0;
};

}  // namespace ucudnn::multigrid
