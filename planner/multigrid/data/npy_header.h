// The header of a .npy file: which values it holds, in which order and shape. Pure functions.
// Source: NumPy, numpy.lib.format, versions 1.0, 2.0 and 3.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn::multigrid {

enum class NpyKind { kFloat, kSigned, kUnsigned };

struct NpyHeader {
  NpyKind kind = NpyKind::kFloat;
  size_t item_bytes = 0;  // 1 to 8, a power of two; of floats 2, 4 or 8
  bool fortran_order = false;
  std::vector<int64_t> shape;  // empty: one value
};

// The bytes that every .npy file begins with: its magic, its version and, in as many more bytes as
// the version says, the size of the text that follows.
inline constexpr size_t kNpyMagicSize = 8;
// NumPy reads no longer text either, unless it is told to trust the file.
inline constexpr size_t kMostNpyText = 10000;

// How many bytes the size of the text has, 2 or 4. The error is one line: what `magic` is and what
// would be right.
Result<size_t> NpySizeBytes(std::string_view magic);

// Reads the text of a header, a literal of Python's:
//   {'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }
// The error is one line: which entry is wrong, and what would be right.
Result<NpyHeader> ParseNpyText(std::string_view text);

// "[2, 3]".
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace ucudnn::multigrid
