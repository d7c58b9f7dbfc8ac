// Tests FirstTouch, the artificial cost of a run that reads another image than the algorithm's last
// run read.
#include "shim/host/cudnn/first_touch.h"

#include <gtest/gtest.h>

namespace hostgpu {
namespace {

using std::chrono::microseconds;

TEST(FirstTouch, CostsWhereTheImageIsAnotherOne) {
  FirstTouch touch("1:250");
  const char images[2] = {};
  EXPECT_EQ(touch.Cost(1, &images[0]), microseconds(250));
  EXPECT_EQ(touch.Cost(1, &images[0]), microseconds(0));
  EXPECT_EQ(touch.Cost(1, &images[1]), microseconds(250));
  EXPECT_EQ(touch.Cost(1, &images[0]), microseconds(250));
}

TEST(FirstTouch, IsOfOneAlgorithm) {
  FirstTouch touch("1:250");
  const char images[2] = {};
  EXPECT_EQ(touch.Cost(1, &images[0]), microseconds(250));
  EXPECT_EQ(touch.Cost(0, &images[1]), microseconds(0));
  EXPECT_EQ(touch.Cost(1, &images[0]), microseconds(0));
}

TEST(FirstTouch, IsNothingByDefault) {
  const char image = 0;
  EXPECT_EQ(FirstTouch(nullptr).Cost(1, &image), microseconds(0));
  EXPECT_EQ(FirstTouch("").Cost(1, &image), microseconds(0));
}

TEST(FirstTouch, TellsOfAValueThatCannotBeRead) {
  const char image = 0;
  for (const char* value : {"1", "1:", ":5", "1:5us", "-1:5", "99:5", "1:-5", "one:5"}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(FirstTouch(value).Cost(1, &image), microseconds(0)) << value;
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              std::string("hostgpu: HOSTGPU_FIRST_TOUCH=") + value +
                  " is not ALGORITHM:MICROSECONDS; the default is used\n");
  }
}

}  // namespace
}  // namespace hostgpu
