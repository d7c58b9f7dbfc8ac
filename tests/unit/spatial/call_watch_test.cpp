// Tests which rank or device CallWatch waits for, and when it warns and gives up. The test itself
// sets the time.
#include "spatial/rank_watch.h"

#include <gtest/gtest.h>

namespace ucudnn::test {
namespace {

using spatial::CallRecord;
using spatial::Patience;
using std::chrono::milliseconds;

class CallWatchTest : public ::testing::Test {
 protected:
  void Make(uint64_t call) {
    record.sequence = call;
    EXPECT_FALSE(watch.records().Add(record, nullptr));
    watch.set_waiting(call);
  }
  // Adds the record of the other rank's call number `call`, as if it had arrived.
  void HearOther(uint64_t call) {
    record.sequence = call;
    EXPECT_FALSE(watch.records().AddOf(1, {reinterpret_cast<const char*>(&record), sizeof record}));
  }

  const Patience::Clock::time_point begin = Patience::Clock::now();
  CallRecord record;
  spatial::CallWatch watch{0, 2, 0, Patience(milliseconds(10), milliseconds(100))};
};

TEST_F(CallWatchTest, ARankThatDoesNotComeIsToldOfOnceAndGivenUp) {
  Make(1);
  EXPECT_EQ(watch.LookAtRanks(begin), Patience::kWait);
  EXPECT_EQ(watch.LookAtRanks(begin + milliseconds(11)), Patience::kWarn);
  EXPECT_EQ(watch.slowest(), (spatial::CallWatch::Slowest{1, 0}));
  EXPECT_EQ(watch.LookAtRanks(begin + milliseconds(50)), Patience::kWait);
  EXPECT_EQ(watch.LookAtRanks(begin + milliseconds(101)), Patience::kGiveUp);
  HearOther(1);
  EXPECT_EQ(watch.LookAtRanks(begin + milliseconds(200)), Patience::kWait);
}

TEST_F(CallWatchTest, ADeviceIsWaitedForOnceAllRanksCame) {
  Make(1);
  watch.LookAtRanks(begin);
  EXPECT_EQ(watch.LookAtDevice(false, begin + milliseconds(500)), Patience::kWait);
  HearOther(1);
  watch.LookAtRanks(begin);
  EXPECT_EQ(watch.LookAtDevice(false, begin + milliseconds(511)), Patience::kWarn);
  EXPECT_EQ(watch.LookAtDevice(true, begin + milliseconds(620)), Patience::kWait);
}

TEST_F(CallWatchTest, ARankThatEndedIsBehindOnlyTheCallsThatNeedIt) {
  for (const uint64_t call : {1, 2}) Make(call);
  HearOther(1);
  EXPECT_EQ(watch.SlowestPresent().rank, 1);
  watch.HearLeave(1, 1);
  EXPECT_EQ(watch.SlowestPresent().rank, 0);
  EXPECT_EQ(watch.LeftBehind(), (spatial::CallWatch::Slowest{1, 1}));
  watch.set_waiting(1);
  EXPECT_FALSE(watch.LeftBehind());
}

}  // namespace
}  // namespace ucudnn::test
