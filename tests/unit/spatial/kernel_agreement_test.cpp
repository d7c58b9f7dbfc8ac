// Tests KernelAgreement in a job of one rank. The library refuses the rank's own call.
#include "spatial/kernel_agreement.h"

#include <gtest/gtest.h>

#include "tests/support/device.h"
#include "tests/unit/spatial/idle_channel.h"
#include "tests/unit/spatial/split_layer.h"
#include "tests/unit/transport/job.h"

namespace ucudnn::test {
namespace {

class KernelAgreementTest : public DeviceTest {
 protected:
  KernelAgreementTest() {
    settings.most_buffer_bytes = [] { return size_t{1} << 20; };
    own.beta = cudnn::ZeroOf(problem.type);
    call.declared.is_replicated = true;  // so that the null input is not hashed
  }
  spatial::KernelAgreement::Found Agree(uint64_t sequence) {
    GivenCall local([this](const cudnn::ConvolutionCall&) {
      ++tries;
      if (in_try) in_try();
      return CUDNN_STATUS_NOT_SUPPORTED;
    });
    return agreement.KernelOf({call, local, sequence, spatial::FormOf(functions, call)});
  }

  const std::vector<std::unique_ptr<transport::Ranks>> ranks =
      transport::test::JoinAll(transport::test::Job(1));
  spatial::RankFailure failure{*ranks[0], SpatialGrid()};
  const cudnn::Functions functions = StandIn();
  spatial::RankDevice device{
      functions, *cuda::GetDriver(), *ranks[0], failure,
      [](const transport::ChannelSetup&) -> Result<std::unique_ptr<transport::Channel>> {
        return std::unique_ptr<transport::Channel>(std::make_unique<IdleChannel>());
      }};
  spatial::SplitSettings settings;
  const spatial::CallRecords records{0, 1};
  spatial::KernelLog log;
  spatial::KernelAgreement agreement{settings, device, *ranks[0], failure, records, log};

  const ConvolutionProblem problem = Layer(Operation::kForward, 4);
  cudnn::ConvolutionCall own;
  spatial::SplitCall call{problem, own};
  int tries = 0;
  std::function<void()> in_try;
};

TEST_F(KernelAgreementTest, IsMadeOnceForAllCallsOfAKernel) {
  ExpectContains(agreement.FindForCapture(call).message(), {"has not run outside of a capture"});
  const auto first = Agree(1);
  ASSERT_NE(first.kernel, nullptr);
  EXPECT_TRUE(first.agreed_now);
  ExpectContains(first.kernel->refusal(), {"rank 0 cannot run its part: its own convolution"});
  EXPECT_EQ(log.Read().kernels.at(0).facts.refusal, first.kernel->refusal());
  const auto second = Agree(2);
  EXPECT_EQ(second.kernel, first.kernel);
  EXPECT_FALSE(second.agreed_now);
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(agreement.FindForCapture(call).value(), first.kernel);
  EXPECT_FALSE(failure.has_failed());
}

TEST_F(KernelAgreementTest, ARankThatDoesNotAgreeMeanwhileIsNamed) {
  spatial::CallRecord theirs;
  theirs.sequence = 1;
  theirs.kernel = 5;
  agreement.HearPost(1, theirs);
  EXPECT_FALSE(failure.has_failed()) << "this rank does not agree now";
  in_try = [&] {
    theirs.sequence = 2;
    agreement.HearPost(1, theirs);
    theirs.sequence = 1;
    theirs.kind = spatial::RecordKind::kAgreed;
    agreement.HearPost(1, theirs);
    EXPECT_FALSE(failure.has_failed());
    theirs.kind = spatial::RecordKind::kExchanged;
    agreement.HearPost(1, theirs);
  };
  EXPECT_EQ(Agree(1).kernel, nullptr);
  ExpectContains(ranks[0]->Failure().value_or(""),
                 {"call 1 is new to rank 0, and another kernel on rank 1"});
}

}  // namespace
}  // namespace ucudnn::test
