// Tests the records that a rank posts of its calls, and that the job fails if another rank's record
// differs.
#include "spatial/call_record.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/spatial/split_layer.h"
#include "tests/unit/transport/job.h"

namespace ucudnn::test {
namespace {

using spatial::CallRecord;
using spatial::RecordKind;

class CallSequenceTest : public testing::Test {
 protected:
  CallSequenceTest() {
    ranks[1]->OnPost([this](int, std::string_view record) {
      CallRecord heard;
      if (record.size() == sizeof heard) std::memcpy(&heard, record.data(), sizeof heard);
      last_heard = heard.sequence;
    });
  }
  ~CallSequenceTest() override { ranks[1]->OnPost(nullptr); }
  // Makes a call on the handle with the address `handle`, and returns the record that it posts.
  CallRecord Make(uintptr_t handle, const spatial::SplitKernel* kernel,
                  const spatial::CallSequence::Posting& posting) {
    cudnn::ConvolutionCall own;
    own.handle = reinterpret_cast<cudnnHandle_t>(handle);
    calls.Begin();
    calls.Post({problem, own}, kernel, posting);
    return records.Own(calls.number());
  }

  const std::vector<std::unique_ptr<transport::Ranks>> ranks =
      transport::test::JoinAll(transport::test::Job(2));
  spatial::RankFailure failure{*ranks[0], *SpatialGrid::Parse("h2")};
  spatial::CallRecords records{0, 2};
  spatial::SplitSettings settings;
  spatial::CallSequence calls{settings, *ranks[0], failure, records};  // of rank 0
  const ConvolutionProblem problem = Layer(Operation::kForward, 4);
  std::atomic<uint64_t> last_heard = 0;  // number of the last record that rank 1 has received
};

TEST_F(CallSequenceTest, NumbersHandlesAndThreads) {
  EXPECT_EQ(Make(8, nullptr, {}).handle, 0);
  EXPECT_EQ(Make(16, nullptr, {}).handle, 1);
  EXPECT_EQ(Make(8, nullptr, {}).handle, 0);
  calls.Forget(reinterpret_cast<cudnnHandle_t>(uintptr_t{8}));
  EXPECT_EQ(Make(8, nullptr, {}).handle, 2);
  EXPECT_EQ(records.Own(4).thread, 0);
  std::thread([this] { EXPECT_EQ(Make(16, nullptr, {}).thread, 1); }).join();
  EXPECT_EQ(Make(16, nullptr, {}).thread, 0);
  EXPECT_EQ(calls.number(), 6U);
  EXPECT_TRUE(Becomes([&] { return last_heard == 6; }));
  EXPECT_FALSE(failure.has_failed());
}

TEST_F(CallSequenceTest, PostsWhatTheRanksDoTogether) {
  const auto kernel = spatial::SplitKernel::Refused({{1, 4, 6}, {1, 4, 6}}, "refused");
  kernel->set_common_hash(9);
  const CallRecord agreed = Make(8, kernel.get(), {.agreed_now = true});
  EXPECT_EQ(agreed.kind, RecordKind::kAgreed);
  EXPECT_EQ(agreed.kernel, 9U);
  EXPECT_EQ(agreed.extents, problem.x);
  EXPECT_EQ(Make(8, kernel.get(), {}).kind, RecordKind::kRefused);
  const CallRecord unread = Make(8, nullptr, {});
  EXPECT_EQ(unread.kind, RecordKind::kRefused);
  EXPECT_EQ(unread.kernel, 0U);
  EXPECT_EQ(unread.extents, Spatial{});
}

TEST_F(CallSequenceTest, ADifferentRecordFailsTheJob) {
  CallRecord theirs;
  theirs.sequence = 1;
  theirs.kernel = 5;
  EXPECT_FALSE(records.AddOf(1, {reinterpret_cast<const char*>(&theirs), sizeof theirs}));
  Make(8, nullptr, {});
  EXPECT_TRUE(failure.has_failed());
  ExpectContains(ranks[0]->Failure().value_or(""), {"call 1 of rank 0 and of rank 1 differ"});
  settings.waits_for_records = true;
  EXPECT_FALSE(calls.AwaitIfChecked());
}

}  // namespace
}  // namespace ucudnn::test
