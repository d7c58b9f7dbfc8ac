// Tests conversions of 16-bit elements against the definition of their formats.
#include "shim/host/engines/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hostgpu {
namespace {

double ValueOfHalf(int bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

bool IsFiniteHalf(int bits) { return (bits >> 10 & 31) != 31; }

TEST(Element, HalfOfEveryBitPatternWidensToItsValue) {
  for (int bits = 0; bits < 65536; ++bits) {
    if (!IsFiniteHalf(bits)) continue;
    ASSERT_EQ(ToFloat(Half{static_cast<uint16_t>(bits)}), ValueOfHalf(bits)) << bits;
  }
}

TEST(Element, FloatsNarrowToTheNearestHalfAndTiesToEven) {
  for (int bits = 0; bits < 0x7bff; ++bits) {  // bits and bits + 1 are neighbours, both finite
    const auto low = static_cast<float>(ValueOfHalf(bits));
    const auto high = static_cast<float>(ValueOfHalf(bits + 1));
    const float middle = (low + high) / 2;
    ASSERT_EQ(ToHalf(low).bits, bits);
    ASSERT_EQ(ToHalf(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(ToHalf(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(ToHalf(std::nextafter(middle, high)).bits, bits + 1);
    ASSERT_EQ(ToHalf(-middle).bits, 0x8000 | (bits % 2 == 0 ? bits : bits + 1));
  }
}

TEST(Element, HalfOverflowsToInfinityFrom65520) {
  EXPECT_EQ(ToHalf(std::nextafter(65520.0f, 0.0f)).bits, 0x7bff);
  EXPECT_EQ(ToHalf(65520.0f).bits, 0x7c00);
  EXPECT_EQ(ToHalf(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_TRUE(std::isnan(ToFloat(ToHalf(std::nanf("")))));
  EXPECT_TRUE(std::isinf(ToFloat(Half{0x7c00})));
}

TEST(Element, RunsOfHalvesConvertAsSingleOnesDo) {
  std::vector<Half> halves;
  for (int bits = 0; bits < 65536; bits += 7) {
    if (IsFiniteHalf(bits)) halves.push_back({static_cast<uint16_t>(bits)});
  }
  std::vector<float> wide(halves.size());
  Widen(halves.data(), wide.data(), static_cast<int64_t>(wide.size()));
  for (float& value : wide) value *= 1.0003f;
  std::vector<Half> narrow(wide.size());
  Narrow(wide.data(), narrow.data(), static_cast<int64_t>(narrow.size()));
  for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(narrow[i].bits, ToHalf(wide[i]).bits) << i;
}

TEST(Element, FloatsNarrowToTheNearestBfloat16AndTiesToEven) {
  for (int bits = 0; bits < 0x7f7f; ++bits) {
    const float low = ToFloat(Bfloat16{static_cast<uint16_t>(bits)});
    const float high = ToFloat(Bfloat16{static_cast<uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(ToBfloat16(low).bits, bits);
    ASSERT_EQ(ToBfloat16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(ToBfloat16(std::nextafter(middle, high)).bits, bits + 1);
  }
  EXPECT_TRUE(std::isnan(ToFloat(ToBfloat16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(ToFloat(ToBfloat16(std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace hostgpu
