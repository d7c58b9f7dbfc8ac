#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace ucudnn {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Status::Error(std::to_string(value) + " is odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  UCUDNN_ASSIGN_OR_RETURN(const int half, Half(value));
  UCUDNN_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckEven(int value) {
  UCUDNN_RETURN_IF_ERROR(Half(value).status());
  return Status::Ok();
}

TEST(Status, SuccessHasNoMessage) {
  EXPECT_TRUE(Status::Ok().ok());
  EXPECT_EQ(Status::Ok().message(), "");
}

TEST(Status, AnErrorWithoutWordsIsStillAnError) { EXPECT_FALSE(Status::Error("").ok()); }

TEST(Status, TheFirstErrorIsReturnedUnchanged) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).message(), "3 is odd");
  EXPECT_EQ(Quarter(5).message(), "5 is odd");
  EXPECT_TRUE(CheckEven(2).ok());
  EXPECT_EQ(CheckEven(3).message(), "3 is odd");
}

TEST(Status, AResultCanHoldWhatOnlyMoves) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(3));
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> taken = std::move(*result);
  EXPECT_EQ(*taken, 3);
}

}  // namespace
}  // namespace ucudnn
