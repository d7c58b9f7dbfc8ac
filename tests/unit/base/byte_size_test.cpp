#include "base/byte_size.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

size_t Bytes(const char* text) {
  const auto size = ParseByteSize(text);
  EXPECT_TRUE(size.ok()) << size.message();
  return size.ok() ? *size : 0;
}

TEST(ByteSize, BareNumbersAreBytes) {
  EXPECT_EQ(Bytes("0"), 0u);
  EXPECT_EQ(Bytes("512"), 512u);
  EXPECT_EQ(Bytes("18446744073709551615"), 18446744073709551615u);
}

TEST(ByteSize, UnitsAreReadInAnyCaseWithOrWithoutSpace) {
  EXPECT_EQ(Bytes("3B"), 3u);
  EXPECT_EQ(Bytes("64KiB"), 65536u);
  EXPECT_EQ(Bytes(" 8 mib "), 8u << 20);
  EXPECT_EQ(Bytes("2GIB"), size_t{2} << 30);
}

class ByteSizeRefusal : public ::testing::TestWithParam<const char*> {};

TEST_P(ByteSizeRefusal, QuotesTheValue) {
  const auto size = ParseByteSize(GetParam());
  ASSERT_FALSE(size.ok());
  EXPECT_NE(size.message().find("'" + std::string(GetParam()) + "'"), std::string::npos)
      << size.message();
}

INSTANTIATE_TEST_SUITE_P(ByteSize, ByteSizeRefusal,
                         ::testing::Values("", "MiB", "-1", "+1", "1.5GiB", "64M", "64MB",
                                           "64 MiB x", "0x10", "18446744073709551616",
                                           "17179869184GiB"));

TEST(ByteSize, FormatUsesTheLargestUnitReached) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(17), "17 B");
  EXPECT_EQ(FormatByteSize(64u << 20), "64 MiB");
  EXPECT_EQ(FormatByteSize(215793664), "205.8 MiB");
}

TEST(ByteSize, ExactSizesSurviveFormattingAndParsing) {
  for (const size_t size :
       {size_t{1}, size_t{1023}, size_t{7} << 10, size_t{9} << 20, size_t{3} << 30}) {
    EXPECT_EQ(Bytes(FormatByteSize(size).c_str()), size);
  }
}

}  // namespace
}  // namespace ucudnn
