#include "mutate_data.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "mutate.h"
#include "tests/support/made_file.h"

namespace ucudnn::fuzz {
namespace {

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

// IDX files store numbers with the highest byte first.
void ChangeIdxHeader(std::string& bytes, Random& random) {
  const auto at = static_cast<size_t>(4 * random.Between(0, 3));
  if (bytes.size() < at + 4) return;
  uint64_t number = EdgeOf(4, random);
  if (at == 0) number = random.OneOf<uint64_t>({0x801, 0x803, 0x802, 0xd03, 0x08030000});
  test::PutNumber(bytes, at, 4, number);
  std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at),
               bytes.begin() + static_cast<ptrdiff_t>(at + 4));
}

// Replaces a number in a text by a number near it, or by an extreme one.
void ChangeDigits(std::string& text, Random& random) {
  constexpr const char* kDigits = "0123456789";
  std::vector<size_t> begins;
  for (size_t at = text.find_first_of(kDigits); at != std::string::npos;
       at = text.find_first_of(kDigits, text.find_first_not_of(kDigits, at))) {
    begins.push_back(at);
  }
  if (begins.empty()) return;
  const size_t begin = random.OneOf(begins);
  const size_t length = text.find_first_not_of(kDigits, begin) - begin;
  const long long old = std::atoll(text.substr(begin, std::min<size_t>(length, 18)).c_str());
  text.replace(begin, length,
               random.Chance(50) ? std::to_string(old + random.Between(-3, 3))
                                 : std::to_string(EdgeOf(8, random)));
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

std::string MutateSafetensors(std::string bytes, Random& random) {
  uint64_t size = 0;
  for (size_t i = std::min<size_t>(bytes.size(), 8); i-- > 0;) {
    size = size << 8 | static_cast<unsigned char>(bytes[i]);
  }
  if (bytes.size() < 8 || size > bytes.size() - 8 || random.Chance(20)) {
    return Mutate(bytes, bytes, random);
  }
  std::string header = bytes.substr(8, size);
  const std::string values = bytes.substr(8 + size);
  if (random.Chance(60)) {
    for (int64_t i = random.Between(1, 3); i > 0; --i) ChangeDigits(header, random);
  } else {
    header = Mutate(header, header, random);
  }
  std::string file =
      test::SafetensorsOf(header, random.Chance(20) ? Mutate(values, values, random) : values);
  if (random.Chance(5)) test::PutNumber(file, 0, 8, EdgeOf(8, random));
  return file;
}

}  // namespace ucudnn::fuzz
