#include "mutate_data.h"

#include <algorithm>
#include <vector>

#include "mutate.h"
#include "planner/multigrid/data/byte_source.h"
#include "planner/multigrid/data/zip_directory.h"
#include "tests/support/zip_file.h"

namespace ucudnn::fuzz {
namespace {

constexpr size_t kLongestZipRecord = 56;

uint64_t EdgeOf(size_t width, Random& random) {
  const auto any = random.OneOf<uint64_t>({0,
                                           1,
                                           2,
                                           3,
                                           8,
                                           10,
                                           46,
                                           127,
                                           128,
                                           255,
                                           256,
                                           65535,
                                           65536,
                                           0x7fffffff,
                                           0x80000000,
                                           0xfffffffe,
                                           0xffffffff,
                                           uint64_t{1} << 32,
                                           ~uint64_t{0} >> 1,
                                           ~uint64_t{0}});
  return width == 8 ? any : any & ((uint64_t{1} << (8 * width)) - 1);
}

// Numbers of IDX files have their highest byte first.
void ChangeIdxHeader(std::string& bytes, Random& random) {
  const auto at = static_cast<size_t>(4 * random.Between(0, 3));
  if (bytes.size() < at + 4) return;
  uint64_t number = EdgeOf(4, random);
  if (at == 0) number = random.OneOf<uint64_t>({0x801, 0x803, 0x802, 0xd03, 0x08030000});
  test::PutNumber(bytes, at, 4, number);
  std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at),
               bytes.begin() + static_cast<ptrdiff_t>(at + 4));
}

void ChangeZipRecord(std::string& bytes, Random& random) {
  std::vector<size_t> records;
  for (size_t at = bytes.find("PK"); at != std::string::npos; at = bytes.find("PK", at + 1)) {
    records.push_back(at);
  }
  if (records.empty()) return;
  const auto width = static_cast<size_t>(random.OneOf({2, 4, 4, 8}));
  const size_t at =
      random.OneOf(records) + static_cast<size_t>(random.Between(0, kLongestZipRecord));
  if (at + width > bytes.size()) return;
  const uint64_t old = multigrid::LittleEndian(std::string_view(bytes).substr(at, width));
  const uint64_t near = old + static_cast<uint64_t>(random.Between(-3, 3));
  test::PutNumber(bytes, at, width, random.Chance(40) ? near : EdgeOf(width, random));
}

// The members of a file that is right.
std::vector<test::ZipPart> Unzipped(const std::string& bytes) {
  const multigrid::MemoryBytes file("seed", bytes);
  const auto members = multigrid::ReadZipDirectory(file);
  std::vector<test::ZipPart> parts;
  if (!members.ok()) return parts;
  for (const multigrid::ZipMember& member : *members) {
    test::ZipPart part = {member.name, std::string(member.bytes, '\0')};
    if (!multigrid::ZipMemberStream(file, member).Read(part.bytes).ok()) continue;
    parts.push_back(std::move(part));
  }
  return parts;
}

std::string ChangeArray(const std::string& bytes, Random& random) {
  std::vector<test::ZipPart> parts = Unzipped(bytes);
  if (parts.empty()) return bytes;
  const auto any = [&]() -> test::ZipPart& {
    return parts[static_cast<size_t>(random.Between(0, static_cast<int64_t>(parts.size()) - 1))];
  };
  test::ZipPart& part = any();
  part.bytes = Mutate(part.bytes, any().bytes, random);
  if (random.Chance(5)) part.name = any().name;
  if (random.Chance(5)) part.name = Mutate(part.name, any().name, random);
  if (part.name.size() > 0xffff) part.name.resize(0xffff);
  for (test::ZipPart& other : parts) other.deflated = random.Chance(50);
  return test::ZipOf(parts);
}

}  // namespace

std::string MutateIdx(std::string bytes, Random& random) {
  const bool by_header = random.Chance(50);
  if (by_header) ChangeIdxHeader(bytes, random);
  if (!by_header || random.Chance(20)) bytes = Mutate(bytes, bytes, random);
  if (!random.Chance(40)) return bytes;
  const std::string packed = test::GzipOf(bytes);
  return random.Chance(40) ? Mutate(packed, bytes, random) : packed;
}

std::string MutateNpz(std::string bytes, Random& random) {
  const int64_t kind = random.Between(0, 2);
  if (kind == 0) return Mutate(bytes, bytes, random);
  if (kind == 2) bytes = ChangeArray(bytes, random);
  const bool of_records = kind == 1 || random.Chance(20);
  for (int64_t i = of_records ? random.Between(1, 3) : 0; i > 0; --i) {
    ChangeZipRecord(bytes, random);
  }
  return bytes;
}

}  // namespace ucudnn::fuzz
