// Tests each number of the 16-bit precisions, and which numbers are rounded to it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "planner/multigrid/device/precision.h"

namespace ucudnn::multigrid {
namespace {

uint16_t Narrowed(const Precision& precision, double value) {
  uint16_t bits = 0;
  Narrow(precision, &value, 1, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

double Widened(const Precision& precision, uint16_t bits) {
  double value = 0;
  Widen(precision, reinterpret_cast<const std::byte*>(&bits), 1, &value);
  return value;
}

double Rounded(const Precision& precision, double value) {
  std::byte bytes[4];
  Narrow(precision, &value, 1, bytes);
  double back = 0;
  Widen(precision, bytes, 1, &back);
  return back;
}

// Counts up from 0. Each number exceeds the previous one by a step, which doubles at every power of
// two from twice the smallest normal number on.
TEST(Precision, EveryNumberOfTwoBytesIsTheOneBeforeItAndAStep) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const struct {
    const char* name;
    int fraction_bits;
    double least;
    uint16_t infinite;
  } rows[] = {{"fp16", 10, 0x1p-24, 0x7C00}, {"bf16", 7, 0x1p-133, 0x7F80}};
  for (const auto& row : rows) {
    const Precision& precision = **ParsePrecision(row.name);
    double value = 0, step = row.least;
    for (int at = 0; at < 1 << 15; ++at, value += step) {
      const bool is_power = at % (1 << row.fraction_bits) == 0;
      if (is_power && at >= 2 << row.fraction_bits) step *= 2;
      const double middle = value + step / 2;
      for (const int sign : {1, -1}) {
        SCOPED_TRACE(std::string(row.name) + ", " + std::to_string(sign * at));
        const auto bits = static_cast<uint16_t>(sign < 0 ? at | 0x8000 : at);
        const double found = Widened(precision, bits);
        if (at > row.infinite) {
          ASSERT_TRUE(std::isnan(found));
          ASSERT_TRUE(std::isnan(Rounded(precision, found)));
          continue;
        }
        ASSERT_EQ(found, sign * (at == row.infinite ? kInfinity : value));
        ASSERT_EQ(std::signbit(found), sign < 0);
        ASSERT_EQ(Narrowed(precision, found), bits);
        if (at == row.infinite) continue;
        ASSERT_EQ(Narrowed(precision, sign * middle), bits + at % 2);
        ASSERT_EQ(Narrowed(precision, sign * std::nextafter(middle, 0.0)), bits);
        ASSERT_EQ(Narrowed(precision, sign * std::nextafter(middle, kInfinity)), bits + 1);
      }
    }
  }
}

TEST(Precision, RoundsToTheNearestAndTiesToEven) {
  const Precision& half = **ParsePrecision("fp16");
  EXPECT_EQ(Rounded(half, 1 + 0x1p-11), 1);
  EXPECT_EQ(Rounded(half, 1 + 0x1.8p-10), 1 + 0x1p-9);
  EXPECT_EQ(Rounded(half, 1 + 0x1.1p-11), 1 + 0x1p-10);
  EXPECT_EQ(Rounded(half, 2 - 0x1p-12), 2);
  EXPECT_EQ(Rounded(half, 65504), 65504);
  EXPECT_EQ(Rounded(half, 65519.9), 65504);
  EXPECT_EQ(Rounded(half, -65520), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(Rounded(half, 1e300), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Rounded(half, 0x1p-25), 0);
  EXPECT_EQ(Rounded(half, 0x1.1p-25), 0x1p-24);
  EXPECT_EQ(Rounded(half, 0x1.ff8p-15), 0x1.ff8p-15);
  const Precision& brain = **ParsePrecision("bf16");
  EXPECT_EQ(Rounded(brain, 1 + 0x1p-8), 1);
  EXPECT_EQ(Rounded(brain, 1 + 0x1.8p-7), 1 + 0x1p-6);
  EXPECT_EQ(Rounded(brain, 0x1.fep127), 0x1.fep127);
  EXPECT_EQ(Rounded(brain, 0x1.ffp127), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Rounded(brain, 0x1p-133), 0x1p-133);
  EXPECT_EQ(Rounded(**ParsePrecision("fp32"), 1 + 0x1p-24), 1);
}

TEST(Precision, OthersAreRefusedByName) {
  const Result<const Precision*> refused = ParsePrecision("fp8");
  EXPECT_EQ(refused.message(), "'fp8': expected one of fp32, tf32, fp16, bf16");
}

}  // namespace
}  // namespace ucudnn::multigrid
