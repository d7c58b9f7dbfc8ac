// The number types of a chain on a device. Plain values; pure functions.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace ucudnn::multigrid {

// The type of states, weights and gradients. Convolutions and sums accumulate in fp32, and the host
// sums norms of residuals in double precision.
struct Precision {
  const char* name;        // "fp32", "tf32", "fp16" or "bf16"
  const char* text;        // a text for messages
  cudnnDataType_t type;    // of numbers in memory
  int bytes;               // of one number
  cudnnMathType_t math;    // of convolutions
  double unit_roundoff;    // of numbers in memory
  int significant_bits;    // number of significant bits, including the leading bit
  int least_exponent;      // the smallest number above 0 is 2 to this power
  bool has_few_exponents;  // whether small gradients would become 0
};

// fp32 with convolutions that do not round operands to fewer bits.
extern const Precision& kSinglePrecision;
// The error for an unknown name lists the known names.
Result<const Precision*> ParsePrecision(const std::string& name);
std::string PrecisionNames();  // "fp32, tf32, fp16, bf16"

// Convert `count` numbers. Narrow rounds to nearest, ties to even; numbers that are too large
// become infinite.
void Narrow(const Precision& precision, const double* from, int64_t count, std::byte* to);
void Widen(const Precision& precision, const std::byte* from, int64_t count, double* to);

}  // namespace ucudnn::multigrid
