// Files of data, made to be read or to be spoilt by tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::test {

// A file in memory, which others open by its path while this lives.
class MadeFile {
 public:
  explicit MadeFile(std::string_view bytes);
  ~MadeFile();
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;

  std::string path() const;

 private:
  int descriptor_;
};

// An array of a file of safetensors.
struct MadeArray {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;  // its values
};
// The file, with the arrays one behind the other.
std::string SafetensorsOf(const std::vector<MadeArray>& arrays);
// The file with this header, whatever it says of the bytes behind it.
std::string SafetensorsOf(std::string_view header, std::string_view values);
// F64.
MadeArray DoublesOf(const std::string& name, const std::vector<int64_t>& shape,
                    const std::vector<double>& values);

// `bytes` as one gzip file.
std::string GzipOf(std::string_view bytes);

// Writes the low `width` bytes of `number` to `bytes` at `at`, the lowest first.
void PutNumber(std::string& bytes, size_t at, size_t width, uint64_t number);

}  // namespace ucudnn::test
