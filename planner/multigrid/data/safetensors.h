// Named arrays of numbers from a file of safetensors. FORMAT.md says what of the format is read.
// Thread-compatible. Source: Hugging Face, safetensors, "Format".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/data/data_file.h"

namespace ucudnn::multigrid {

struct NamedArray {
  std::string name;
  std::vector<int64_t> shape;  // empty: one value
  std::vector<double> values;  // the last axis fastest
};

inline constexpr uint64_t kMostArrayBytes = uint64_t{16} << 30;

// All arrays in the order of the file's header; names differ. Whole numbers above 2^53 become the
// nearest double; values may be infinite or no numbers. The error is one line with the file, the
// array and what is wrong. Memory is taken only for values whose bytes the file holds, and for at
// most `most_bytes` of doubles.
Result<std::vector<NamedArray>> ReadSafetensors(const DataFile& file,
                                                uint64_t most_bytes = kMostArrayBytes);

// "[2, 3]".
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace ucudnn::multigrid
