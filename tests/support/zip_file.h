// Zip files as numpy.savez writes them, to be spoilt by tests. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::test {

struct ZipPart {
  std::string name;
  std::string bytes;
  bool deflated = false;
};

// Without zip64 fields.
std::string ZipOf(const std::vector<ZipPart>& parts);

// A .npy file of version 1.0. `header` is its text, without the space and the line end behind it.
std::string NpyOf(std::string_view header, std::string_view values);
// The same of doubles in C order.
std::string NpyOf(const std::vector<int64_t>& shape, const std::vector<double>& values);

// `bytes` as one gzip file.
std::string GzipOf(std::string_view bytes);

// Writes the low `width` bytes of `number` to `bytes` at `at`, the lowest first.
void PutNumber(std::string& bytes, size_t at, size_t width, uint64_t number);

// Where the records of a zip file begin, for the names of the fields behind them.
inline constexpr std::string_view kZipLocal("PK\3\4"), kZipCentral("PK\1\2"), kZipEnd("PK\5\6");

}  // namespace ucudnn::test
