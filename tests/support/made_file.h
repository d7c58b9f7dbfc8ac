// Files of data that tests read or damage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::test {

// A file in memory, which can be opened by its path during this object's lifetime.
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

// An array of a safetensors file.
struct MadeArray {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;  // the values
};
// Returns a safetensors file with the arrays one after the other.
std::string SafetensorsOf(const std::vector<MadeArray>& arrays);
// Returns a safetensors file: `header`, then `values`, even if the two contradict each other.
std::string SafetensorsOf(std::string_view header, std::string_view values);
// Returns an array of F64.
MadeArray DoublesOf(const std::string& name, const std::vector<int64_t>& shape,
                    const std::vector<double>& values);

// Compresses `bytes` as one gzip file.
std::string GzipOf(std::string_view bytes);

// Writes the low `width` bytes of `number` to `bytes`, from the position `at` on, the lowest byte
// first.
void PutNumber(std::string& bytes, size_t at, size_t width, uint64_t number);

}  // namespace ucudnn::test
