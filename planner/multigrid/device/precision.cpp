#include "planner/multigrid/device/precision.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "planner/multigrid/two_bytes.h"

namespace ucudnn::multigrid {
namespace {

constexpr Precision kPrecisions[] = {
    {"fp32", "single precision", CUDNN_DATA_FLOAT, 4, CUDNN_FMA_MATH, 0x1p-24, 24, -149, false},
    {"tf32", "single precision (convolutions in TF32)", CUDNN_DATA_FLOAT, 4, CUDNN_DEFAULT_MATH,
     0x1p-24, 24, -149, false},
    {"fp16", "half precision", CUDNN_DATA_HALF, 2, CUDNN_TENSOR_OP_MATH, 0x1p-11, 11, -24, true},
    {"bf16", "bfloat16", CUDNN_DATA_BFLOAT16, 2, CUDNN_TENSOR_OP_MATH, 0x1p-8, 8, -133, false},
};

constexpr int kBitsOfTwoBytes = 16;

// Rounds `value` to an IEEE number of two bytes, and returns its bits. The exponent's field and
// `units`, the significant bits, are added as integers. So if rounding gives the next power of two,
// the carry raises the exponent. `units` has the leading bit, which is not stored; in the sum this
// bit adds one unit to the exponent's field.
uint16_t BitsOf(const Precision& precision, double value) {
  const int fraction_bits = precision.significant_bits - 1;
  const auto infinite =
      static_cast<uint16_t>(((1U << (kBitsOfTwoBytes - 1 - fraction_bits)) - 1) << fraction_bits);
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 1U << (kBitsOfTwoBytes - 1) : 0U);
  if (std::isnan(value)) return infinite | uint16_t{1};
  const double magnitude = std::abs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | infinite;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // The exponent of the last significant bit of the rounded number.
  const int last = std::max(exponent - precision.significant_bits, precision.least_exponent);
  const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(magnitude, -last)));
  const int64_t bits = (int64_t{last - precision.least_exponent} << fraction_bits) + units;
  return sign | static_cast<uint16_t>(std::min<int64_t>(bits, infinite));
}

}  // namespace

const Precision& kSinglePrecision = kPrecisions[0];

std::string PrecisionNames() {
  std::vector<std::string> names;
  for (const Precision& row : kPrecisions) names.emplace_back(row.name);
  return Join(names, ", ");
}

Result<const Precision*> ParsePrecision(const std::string& name) {
  for (const Precision& row : kPrecisions) {
    if (name == row.name) return &row;
  }
  return Status::Error(Quoted(name) + ": expected one of " + PrecisionNames());
}

void Narrow(const Precision& precision, const double* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    if (precision.type == CUDNN_DATA_FLOAT) {
      const auto narrow = static_cast<float>(from[i]);
      std::memcpy(to + i * sizeof narrow, &narrow, sizeof narrow);
    } else {
      const uint16_t narrow = BitsOf(precision, from[i]);
      std::memcpy(to + i * sizeof narrow, &narrow, sizeof narrow);
    }
  }
}

void Widen(const Precision& precision, const std::byte* from, int64_t count, double* to) {
  for (int64_t i = 0; i < count; ++i) {
    if (precision.type == CUDNN_DATA_FLOAT) {
      float narrow = 0;
      std::memcpy(&narrow, from + i * sizeof narrow, sizeof narrow);
      to[i] = narrow;
    } else {
      uint16_t narrow = 0;
      std::memcpy(&narrow, from + i * sizeof narrow, sizeof narrow);
      to[i] = ValueOfTwoBytes(precision.significant_bits, narrow);
    }
  }
}

}  // namespace ucudnn::multigrid
