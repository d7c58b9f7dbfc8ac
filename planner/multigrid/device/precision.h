// The number types of chains on a device. Plain values; pure functions.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace ucudnn::multigrid {

// The type of states, weights and gradients. Convolutions and sums of this type accumulate in fp32,
// and norms of residuals in double precision on the host.
struct Precision {
  const char* name;        // fp32, tf32, fp16, bf16
  const char* text;        // for sentences
  cudnnDataType_t type;    // of numbers in memory
  int bytes;               // of one number
  cudnnMathType_t math;    // of convolutions
  double unit_roundoff;    // of numbers in memory
  int significant_bits;    // with the leading bit
  int least_exponent;      // the smallest number above 0 is 2 to this power
  bool has_few_exponents;  // small gradients would be lost
};

// fp32, whose convolutions round nothing to fewer bits.
extern const Precision& kSinglePrecision;
// Fails for an unknown name, and lists the names.
Result<const Precision*> ParsePrecision(const std::string& name);
std::string PrecisionNames();  // "fp32, tf32, fp16, bf16"

// Convert `count` numbers. Narrow rounds to nearest, ties to even; too large numbers become
// infinite.
void Narrow(const Precision& precision, const double* from, int64_t count, std::byte* to);
void Widen(const Precision& precision, const std::byte* from, int64_t count, double* to);

}  // namespace ucudnn::multigrid
