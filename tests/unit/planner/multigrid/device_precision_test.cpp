// Tests 16-bit precisions: each of their numbers, and the numbers that round to them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "planner/multigrid/device/precision.h"

namespace ucudnn::multigrid {
namespace {

double Rounded(const Precision& precision, double value) {
  std::byte bytes[4];
  Narrow(precision, &value, 1, bytes);
  double back = 0;
  Widen(precision, bytes, 1, &back);
  return back;
}

TEST(Precision, EveryNumberOfTwoBytesComesBack) {
  for (const char* name : {"fp16", "bf16"}) {
    const Precision& precision = **ParsePrecision(name);
    for (int bits = 0; bits < (1 << 16); ++bits) {
      const auto number = static_cast<uint16_t>(bits);
      std::byte bytes[2];
      std::memcpy(bytes, &number, sizeof number);
      double value = 0;
      Widen(precision, bytes, 1, &value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(Rounded(precision, value)));
        continue;
      }
      Narrow(precision, &value, 1, bytes);
      uint16_t back = 0;
      std::memcpy(&back, bytes, sizeof back);
      ASSERT_EQ(back, number) << name << ", " << value;
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
