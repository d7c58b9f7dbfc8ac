#include "planner/multigrid/data/zip_directory.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace ucudnn::multigrid {
namespace {

// Records begin with these four bytes and have these sizes without their names and comments.
constexpr uint64_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50;
constexpr uint64_t kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr std::string_view kEndSignature("PK\5\6");
constexpr uint64_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56;
constexpr uint64_t kLocator64Size = 20;

constexpr uint64_t kInZip64 = 0xffffffff;  // a size or place that a zip64 field has instead
constexpr uint16_t kZip64Field = 1;
constexpr uint64_t kEncryptedFlag = 1, kDescriptorFlag = 8;
constexpr uint64_t kStored = 0, kDeflated = 8;

uint64_t ZipField(std::string_view record, size_t at, size_t width) {
  return LittleEndian(record.substr(at, width));
}

Result<std::string> ReadZipRecord(const ByteSource& file, uint64_t offset, uint64_t size) {
  if (offset > file.size() || size > file.size() - offset) {
    return file.Fault(std::to_string(file.size()) + " bytes; expected a record of " +
                      std::to_string(size) + " at byte " + std::to_string(offset));
  }
  std::string record(size, '\0');
  UCUDNN_RETURN_IF_ERROR(file.Read(offset, record));
  return record;
}

// Where the directory is.
struct ZipDirectory {
  uint64_t offset = 0, size = 0, members = 0;
};

// A record that tells where the directory is, without its comment.
struct ZipEndRecord {
  uint64_t offset = 0;
  std::string bytes;
};

// The end record, which a comment may follow.
Result<ZipEndRecord> FindEnd(const ByteSource& file) {
  constexpr uint64_t kMostComment = 0xffff;
  const uint64_t tail_size = std::min<uint64_t>(file.size(), kEndSize + kMostComment);
  const uint64_t tail_offset = file.size() - tail_size;
  UCUDNN_ASSIGN_OR_RETURN(const std::string tail, ReadZipRecord(file, tail_offset, tail_size));
  for (size_t at = tail.rfind(kEndSignature); at != std::string::npos;
       at = at == 0 ? std::string::npos : tail.rfind(kEndSignature, at - 1)) {
    const uint64_t behind = tail.size() - at;
    if (behind >= kEndSize && ZipField(tail, at + 20, 2) == behind - kEndSize) {
      return ZipEndRecord{tail_offset + at, tail.substr(at, kEndSize)};
    }
  }
  return file.Fault("no zip directory at its end; expected a file that numpy.savez wrote");
}

// The zip64 end record in front of the end record at `end`; nothing where there is none.
Result<std::optional<ZipEndRecord>> FindEnd64(const ByteSource& file, uint64_t end) {
  const std::optional<ZipEndRecord> none;
  if (end < kLocator64Size) return none;
  const uint64_t locator_offset = end - kLocator64Size;
  UCUDNN_ASSIGN_OR_RETURN(const std::string locator,
                          ReadZipRecord(file, locator_offset, kLocator64Size));
  if (ZipField(locator, 0, 4) != kLocator64Signature) return none;
  const uint64_t offset = ZipField(locator, 8, 8);
  UCUDNN_ASSIGN_OR_RETURN(std::string record, ReadZipRecord(file, offset, kEnd64Size));
  const bool is_there = ZipField(record, 0, 4) == kEnd64Signature &&
                        offset + kEnd64Size == locator_offset &&
                        ZipField(record, 4, 8) == kEnd64Size - 12;
  if (!is_there) {
    return file.Fault("no zip64 end record at byte " + std::to_string(offset) +
                      "; expected one just before byte " + std::to_string(locator_offset));
  }
  return std::optional(ZipEndRecord{offset, std::move(record)});
}

Result<ZipDirectory> FindDirectory(const ByteSource& file) {
  UCUDNN_ASSIGN_OR_RETURN(const ZipEndRecord end, FindEnd(file));
  UCUDNN_ASSIGN_OR_RETURN(const std::optional<ZipEndRecord> end64, FindEnd64(file, end.offset));
  const std::string& record = end64 ? end64->bytes : end.bytes;
  const uint64_t behind = end64 ? end64->offset : end.offset;
  ZipDirectory directory;
  uint64_t disks = 0;
  if (end64) {
    directory = {ZipField(record, 48, 8), ZipField(record, 40, 8), ZipField(record, 32, 8)};
    disks = ZipField(record, 16, 4) | ZipField(record, 20, 4);
  } else {
    directory = {ZipField(record, 16, 4), ZipField(record, 12, 4), ZipField(record, 10, 2)};
    disks = ZipField(record, 4, 2) | ZipField(record, 6, 2);
  }
  if (disks != 0) return file.Fault("one of several files of a zip archive; expected a whole one");
  if (directory.offset > behind || directory.size != behind - directory.offset) {
    return file.Fault("a zip directory of " + std::to_string(directory.size) + " bytes at byte " +
                      std::to_string(directory.offset) + "; expected it to end at byte " +
                      std::to_string(behind));
  }
  if (directory.members > directory.size / kCentralSize) {
    return file.Fault(std::to_string(directory.members) + " members in a zip directory of " +
                      std::to_string(directory.size) + " bytes; expected at least " +
                      std::to_string(kCentralSize) + " bytes for each");
  }
  return directory;
}

// Replaces each of `numbers` that says so by its own in the zip64 field of `extra`, where they
// stand in this order. False where one is not there.
bool TakeFromZip64(std::string_view extra, std::initializer_list<uint64_t*> numbers) {
  std::string_view field;
  while (extra.size() >= 4) {
    const uint64_t size = ZipField(extra, 2, 2);
    if (size > extra.size() - 4) return false;
    if (ZipField(extra, 0, 2) == kZip64Field) field = extra.substr(4, size);
    extra.remove_prefix(4 + size);
  }
  for (uint64_t* const number : numbers) {
    if (*number != kInZip64) continue;
    if (field.size() < 8) return false;
    *number = ZipField(field, 0, 8);
    field.remove_prefix(8);
  }
  return true;
}

// A member with what only its directory entry and its local header have.
struct ZipEntry {
  ZipMember member;
  uint64_t header_offset = 0, flags = 0, method = 0;

  std::string name() const { return Quoted(member.name); }
};

bool IsZipName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
}

Status CheckZipEntry(const ByteSource& file, const ZipEntry& entry) {
  const ZipMember& member = entry.member;
  if (!IsZipName(member.name)) {
    return file.Fault("a member called " + entry.name() + "; expected a printable name");
  }
  const auto fault = [&](const std::string& what) {
    return file.Fault(entry.name() + ": " + what);
  };
  if ((entry.flags & kEncryptedFlag) != 0) return fault("encrypted; expected plain data");
  if (entry.method != kStored && entry.method != kDeflated) {
    return fault("compression method " + std::to_string(entry.method) +
                 "; expected 0 (stored) or 8 (deflated), as NumPy writes");
  }
  if (!CanHold(member.packing, member.packed_bytes, member.bytes)) {
    return fault(std::to_string(member.bytes) + " bytes; expected " +
                 (member.packing == Packing::kNone
                      ? std::to_string(member.packed_bytes) + ", as it is stored"
                      : "at most " + std::to_string(kMostInflation) + " times the " +
                            std::to_string(member.packed_bytes) + " that it is deflated to"));
  }
  return Status::Ok();
}

// Reads the entry that `directory` begins with and removes it from there.
Result<ZipEntry> TakeZipEntry(const ByteSource& file, std::string_view& directory) {
  const Status truncated = file.Fault("a zip directory that ends within an entry");
  if (directory.size() < kCentralSize) return truncated;
  if (ZipField(directory, 0, 4) != kCentralSignature) {
    return file.Fault(Quoted(directory.substr(0, 4)) +
                      " in its zip directory; expected an entry, 'PK\\x01\\x02'");
  }
  const uint64_t name_size = ZipField(directory, 28, 2), extra_size = ZipField(directory, 30, 2);
  const uint64_t size = kCentralSize + name_size + extra_size + ZipField(directory, 32, 2);
  if (size > directory.size()) return truncated;
  ZipEntry entry;
  ZipMember& member = entry.member;
  member.name = directory.substr(kCentralSize, name_size);
  entry.flags = ZipField(directory, 8, 2);
  entry.method = ZipField(directory, 10, 2);
  entry.header_offset = ZipField(directory, 42, 4);
  member.packing = entry.method == kDeflated ? Packing::kDeflate : Packing::kNone;
  member.checksum = static_cast<uint32_t>(ZipField(directory, 16, 4));
  member.packed_bytes = ZipField(directory, 20, 4);
  member.bytes = ZipField(directory, 24, 4);
  const std::string_view extra = directory.substr(kCentralSize + name_size, extra_size);
  if (!TakeFromZip64(extra, {&member.bytes, &member.packed_bytes, &entry.header_offset})) {
    return file.Fault(entry.name() + ": its sizes are missing; expected a zip64 field");
  }
  directory.remove_prefix(size);
  UCUDNN_RETURN_IF_ERROR(CheckZipEntry(file, entry));
  return entry;
}

// Finds the packed bytes behind the local header, which must say what the directory says.
Status LocateMember(const ByteSource& file, ZipEntry& entry) {
  ZipMember& member = entry.member;
  UCUDNN_ASSIGN_OR_RETURN(const std::string header,
                          ReadZipRecord(file, entry.header_offset, kLocalSize));
  const uint64_t name_size = ZipField(header, 26, 2), extra_size = ZipField(header, 28, 2);
  UCUDNN_ASSIGN_OR_RETURN(
      const std::string rest,
      ReadZipRecord(file, entry.header_offset + kLocalSize, name_size + extra_size));
  uint64_t packed_bytes = ZipField(header, 18, 4), bytes = ZipField(header, 22, 4);
  const bool has_sizes =
      TakeFromZip64(std::string_view(rest).substr(name_size), {&bytes, &packed_bytes});
  // Sizes of what was written to a pipe follow the data.
  const bool sizes_follow = (ZipField(header, 6, 2) & kDescriptorFlag) != 0;
  const bool same_sizes = bytes == member.bytes && packed_bytes == member.packed_bytes &&
                          ZipField(header, 14, 4) == member.checksum;
  const bool same = ZipField(header, 0, 4) == kLocalSignature &&
                    std::string_view(rest).substr(0, name_size) == member.name &&
                    ZipField(header, 8, 2) == entry.method && has_sizes &&
                    (same_sizes || sizes_follow);
  if (!same) {
    return file.Fault(entry.name() + ": its header at byte " + std::to_string(entry.header_offset) +
                      " and the zip directory contradict each other");
  }
  member.offset = entry.header_offset + kLocalSize + name_size + extra_size;
  if (member.packed_bytes > file.size() - member.offset) {
    return file.Fault(entry.name() + ": " + std::to_string(member.packed_bytes) +
                      " bytes at byte " + std::to_string(member.offset) + " of " +
                      std::to_string(file.size()) + "; expected them inside the file");
  }
  return Status::Ok();
}

// Locates all members. They, their headers and the directory share no byte. In the order of the
// file, so that one that overlaps the next ends it: what is read is at most the file.
Status LocateAll(const ByteSource& file, const ZipDirectory& directory,
                 std::vector<ZipEntry>& entries) {
  std::vector<ZipEntry*> in_place;
  for (ZipEntry& entry : entries) in_place.push_back(&entry);
  std::sort(in_place.begin(), in_place.end(), [](const ZipEntry* a, const ZipEntry* b) {
    return a->header_offset < b->header_offset;
  });
  for (size_t i = 0; i < in_place.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(LocateMember(file, *in_place[i]));
    const ZipMember& member = in_place[i]->member;
    const bool is_last = i + 1 == in_place.size();
    const uint64_t next = is_last ? directory.offset : in_place[i + 1]->header_offset;
    if (member.offset + member.packed_bytes <= next) continue;
    return file.Fault(in_place[i]->name() + " and " +
                      (is_last ? "the zip directory" : in_place[i + 1]->name()) +
                      " share the byte " + std::to_string(next) + "; expected each its own");
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<ZipMember>> ReadZipDirectory(const ByteSource& file) {
  UCUDNN_ASSIGN_OR_RETURN(const ZipDirectory directory, FindDirectory(file));
  UCUDNN_ASSIGN_OR_RETURN(const std::string records,
                          ReadZipRecord(file, directory.offset, directory.size));
  std::string_view left = records;
  std::vector<ZipEntry> entries;
  while (entries.size() < directory.members) {
    UCUDNN_ASSIGN_OR_RETURN(ZipEntry entry, TakeZipEntry(file, left));
    entries.push_back(std::move(entry));
  }
  if (!left.empty()) {
    return file.Fault(std::to_string(left.size()) + " bytes follow the " +
                      std::to_string(directory.members) +
                      " entries of its zip directory; expected none");
  }
  std::set<std::string_view> names;
  for (const ZipEntry& entry : entries) {
    if (!names.insert(entry.member.name).second) {
      return file.Fault("two members called " + entry.name() + "; expected one");
    }
  }
  UCUDNN_RETURN_IF_ERROR(LocateAll(file, directory, entries));
  std::vector<ZipMember> members;
  for (ZipEntry& entry : entries) members.push_back(std::move(entry.member));
  return members;
}

ZipMemberStream::ZipMemberStream(const ByteSource& file, const ZipMember& member)
    : packed_(file.name() + ": " + Quoted(member.name), file, member.offset, member.packed_bytes),
      stream_(MakeByteStream(packed_, member.packing)),
      expected_checksum_(member.checksum),
      left_(member.bytes) {}

Status ZipMemberStream::Read(std::span<char> bytes) {
  if (bytes.size() > left_) {
    return Fault(std::to_string(left_) + " bytes are left; expected " +
                 std::to_string(bytes.size()));
  }
  UCUDNN_RETURN_IF_ERROR(stream_->Read(bytes));
  left_ -= bytes.size();
  checksum_ = static_cast<uint32_t>(
      crc32_z(checksum_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  return Status::Ok();
}

Status ZipMemberStream::Finish() {
  if (left_ > 0) return Fault(std::to_string(left_) + " bytes follow; expected none");
  UCUDNN_RETURN_IF_ERROR(stream_->Finish());
  if (checksum_ == expected_checksum_) return Status::Ok();
  return Fault("checksum " + std::to_string(checksum_) + "; expected " +
               std::to_string(expected_checksum_) + ", as the zip directory says");
}

}  // namespace ucudnn::multigrid
