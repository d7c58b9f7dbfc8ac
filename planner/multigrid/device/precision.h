// The kinds of numbers that chains on a device are made of. Plain values; pure functions.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace ucudnn::multigrid {

// States, weights and gradients are of one type; convolutions and sums of it add up in fp32, and
// norms of residuals in double precision on the host.
struct Precision {
  const char* name;        // fp32, tf32, fp16, bf16
  const char* text;        // in a sentence
  cudnnDataType_t type;    // of numbers in memory
  int bytes;               // of one
  cudnnMathType_t math;    // of convolutions
  double unit_roundoff;    // of a number in memory
  int significant_bits;    // of one, with the leading bit
  int least_exponent;      // the smallest number above 0 is 2 to that
  bool has_few_exponents;  // so that small gradients would be lost
};

// fp32, in whose convolutions nothing is rounded to fewer bits.
extern const Precision& kSinglePrecision;
// The error lists the names.
Result<const Precision*> ParsePrecision(const std::string& name);
std::string PrecisionNames();  // "fp32, tf32, fp16, bf16"

// Rounds to nearest, ties to even; what is too large becomes infinite.
void Narrow(const Precision& precision, const double* from, int64_t count, std::byte* to);
void Widen(const Precision& precision, const std::byte* from, int64_t count, double* to);

}  // namespace ucudnn::multigrid
