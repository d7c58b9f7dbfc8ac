// Reads named arrays of numbers from a safetensors file. FORMAT.md says which part of the format is
// read. Thread-compatible. Source: Hugging Face, safetensors, "Format".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/data/data_file.h"

namespace ucudnn::multigrid {

struct NamedArray {
  std::string name;
  std::vector<int64_t> shape;  // empty for a single value
  std::vector<double> values;  // in row-major order
};

inline constexpr uint64_t kMostArrayBytes = uint64_t{16} << 30;

// Returns all arrays in the order of the file's header; all names are different. A whole number
// above 2^53 becomes the nearest double; values may be infinite or NaN. The error is one line with
// the file, the array and the reason. Allocates memory only for values whose bytes the file holds,
// and at most `most_bytes` bytes of doubles.
Result<std::vector<NamedArray>> ReadSafetensors(const DataFile& file,
                                                uint64_t most_bytes = kMostArrayBytes);

// Returns the extents of a shape as text, such as "[2, 3]".
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace ucudnn::multigrid
