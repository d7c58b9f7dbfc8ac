// Tests how calls are assigned to the lanes that the report names.
#include "interposer/session/lanes.h"

#include <gtest/gtest.h>

namespace ucudnn::interposer {
namespace {

const char kHandles[4] = {};

CUstream StreamOf(uintptr_t number) { return reinterpret_cast<CUstream>(number * 16); }

uint64_t Bit(int number) { return uint64_t{1} << number; }

TEST(Lanes, AreHandlesOnStreamsInTheOrderTheyCame) {
  Lanes lanes;
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, StreamOf(1)), Bit(0));
  EXPECT_EQ(lanes.BitOf(&kHandles[1], false, StreamOf(1)), Bit(1));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, nullptr), Bit(2));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, StreamOf(1)), Bit(0));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, CU_STREAM_LEGACY), Bit(2)) << "the default by name";
}

TEST(Lanes, OrderedHandlesAreOneWhateverTheirStream) {
  Lanes lanes;
  EXPECT_EQ(lanes.BitOf(&kHandles[0], true, StreamOf(1)), Bit(0));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], true, StreamOf(2)), Bit(0));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, nullptr), Bit(1));
}

TEST(Lanes, AHandleMadeAnewGoesOnWhereTheLastOneOnItsStreamWas) {
  Lanes lanes;
  lanes.BitOf(&kHandles[0], false, StreamOf(1));
  lanes.BitOf(&kHandles[0], false, StreamOf(2));
  EXPECT_EQ(lanes.BitOf(&kHandles[1], false, StreamOf(2)), Bit(2)) << "both are there";
  lanes.Leave(&kHandles[0]);
  EXPECT_EQ(lanes.BitOf(&kHandles[2], false, StreamOf(2)), Bit(1));
  EXPECT_EQ(lanes.BitOf(&kHandles[3], false, StreamOf(2)), Bit(3));
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, StreamOf(1)), Bit(0));
}

TEST(Lanes, TheLastStandsForAllThatFindNoNumber) {
  Lanes lanes;
  for (int stream = 0; stream < Lanes::kOthers; ++stream) {
    EXPECT_EQ(lanes.BitOf(&kHandles[0], false, StreamOf(stream)), Bit(stream));
  }
  for (const int stream : {100, 200, 100}) {
    EXPECT_EQ(lanes.BitOf(&kHandles[0], false, StreamOf(stream)), Bit(Lanes::kOthers));
  }
  EXPECT_EQ(lanes.BitOf(&kHandles[0], false, StreamOf(5)), Bit(5));
}

}  // namespace
}  // namespace ucudnn::interposer
