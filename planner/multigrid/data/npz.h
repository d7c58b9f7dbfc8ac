// Arrays from files that numpy.savez or numpy.savez_compressed wrote. FORMAT.md says what of
// NumPy's formats is read. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/data/byte_source.h"

namespace ucudnn::multigrid {

struct NpzArray {
  std::string name;            // without ".npy"
  std::vector<int64_t> shape;  // empty: one value
  std::vector<double> values;  // the last axis fastest, whichever order the file has
};

inline constexpr uint64_t kMostNpzBytes = uint64_t{16} << 30;

// All arrays in the order of the file; names differ. Whole numbers above 2^53 become the nearest
// double; values may be infinite or no numbers. The error is one line with the file, the array and
// what is wrong. Memory is taken only for values whose bytes the file can hold (deflated ones at
// most 1032 for each byte), and for at most `most_bytes` of doubles and of unpacked members.
Result<std::vector<NpzArray>> ReadNpz(const ByteSource& file, uint64_t most_bytes = kMostNpzBytes);

}  // namespace ucudnn::multigrid
