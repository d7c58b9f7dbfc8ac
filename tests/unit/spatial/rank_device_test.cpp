// Tests the resources of a rank that is alone in its job.
#include "spatial/rank_device.h"

#include <gtest/gtest.h>

#include "tests/support/device.h"
#include "tests/unit/spatial/idle_channel.h"
#include "tests/unit/spatial/split_layer.h"
#include "tests/unit/transport/job.h"

namespace ucudnn::test {
namespace {

// A kernel whose trial fills the whole exchange buffer with bytes of 0xff.
class FillingKernel : public spatial::SplitKernel {
 public:
  explicit FillingKernel(size_t bytes) { buffer_bytes_ = bytes; }
  Status Try(const spatial::KernelCall&, spatial::ExchangeResources& device) override {
    return cuda::DriverStatus(
        device.driver,
        cuMemsetD8Async(device.buffer.address(), 0xff, device.buffer.size(), device.stream.get()),
        "filling");
  }
  spatial::KernelOutcome Run(const spatial::KernelCall&, spatial::ExchangeResources&,
                             transport::Channel&) override {
    return {};
  }
};

class RankDeviceTest : public DeviceTest {
 protected:
  Result<std::unique_ptr<transport::Channel>> OpenOrRefuse(const transport::ChannelSetup& setup) {
    EXPECT_EQ(setup.context, context);
    EXPECT_EQ(setup.size, 1);
    ++openings;
    if (refuses) return Status::Error("no channel");
    return std::unique_ptr<transport::Channel>(std::make_unique<IdleChannel>());
  }

  const std::vector<std::unique_ptr<transport::Ranks>> ranks =
      transport::test::JoinAll(transport::test::Job(1));
  spatial::RankFailure failure{*ranks[0], SpatialGrid()};
  const cuda::Driver& driver = *cuda::GetDriver();
  const cudnn::Functions functions = StandIn();
  int openings = 0;
  bool refuses = false;
  spatial::RankDevice device{
      functions, driver, *ranks[0], failure,
      [this](const transport::ChannelSetup& setup) { return OpenOrRefuse(setup); }};
};

TEST_F(RankDeviceTest, MakesItsResourcesAndItsChannelOnce) {
  EXPECT_FALSE(device.is_prepared());
  EXPECT_FALSE(device.IsAnother());
  ASSERT_TRUE(device.Prepare().ok());
  const CUstream stream = device.resources().stream.get();
  ASSERT_TRUE(device.Prepare().ok());
  EXPECT_EQ(device.resources().stream.get(), stream);
  EXPECT_FALSE(device.IsAnother());
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_TRUE(device.IsAnother());
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);

  refuses = true;
  EXPECT_EQ(device.Open(kSoon).message(), "no channel");
  EXPECT_FALSE(device.is_open());
  EXPECT_EQ(failure.channel(), nullptr);
  refuses = false;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(device.Open(kSoon).ok());
  EXPECT_EQ(openings, 2);
  EXPECT_EQ(failure.channel(), &device.channel());
}

TEST_F(RankDeviceTest, ATrialLeavesTheReceivedRows) {
  ASSERT_TRUE(device.Prepare().ok());
  spatial::ExchangeResources& resources = device.resources();
  ASSERT_TRUE(resources.Grow(4).ok());
  EXPECT_EQ(cuMemsetD8Async(resources.buffer.address(), 7, 4, resources.stream.get()),
            CUDA_SUCCESS);
  FillingKernel kernel(64);
  const cudnn::ConvolutionCall call;
  GivenCall local([](const cudnn::ConvolutionCall&) { return kFine; });
  ASSERT_TRUE(device.GrowAndTry(kernel, {call, nullptr, local}, 3).ok());
  ASSERT_GE(resources.buffer.size(), 64U);
  std::vector<unsigned char> bytes(5);
  EXPECT_EQ(cuMemcpyDtoH(bytes.data(), resources.buffer.address(), bytes.size()), CUDA_SUCCESS);
  EXPECT_EQ(bytes, (std::vector<unsigned char>{7, 7, 7, 0xff, 0xff}));
}

TEST_F(RankDeviceTest, CapturesTakeWhatTheRestOfTheRankLeaves) {
  ASSERT_TRUE(device.Prepare().ok());
  ASSERT_TRUE(device.Open(kSoon).ok());
  ASSERT_TRUE(device.resources().Grow(500).ok());
  device.CountOwned();
  const size_t owned = device.owned_bytes();
  EXPECT_EQ(owned, device.resources().buffer.size() + device.channel().device_bytes());
  const auto kernel = std::make_shared<FillingKernel>(1000);
  cuda::Stream origin(driver);
  ASSERT_TRUE(origin.Create().ok());
  ASSERT_EQ(cuStreamBeginCapture(origin.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  const auto capture = cuda::CaptureOf(driver, origin.get());
  ASSERT_TRUE(capture);
  EXPECT_FALSE(device.TakeForCapture(*capture, origin.get(), *kernel, owned + 999).ok());
  EXPECT_EQ(device.owned_bytes(), owned);
  const auto taken = device.TakeForCapture(*capture, origin.get(), *kernel, owned + 1000);
  ASSERT_TRUE(taken.ok()) << taken.message();
  EXPECT_NE(*taken, &device.resources());
  EXPECT_EQ(device.captured_bytes(), 1000U);
  EXPECT_EQ(device.owned_bytes(), owned + 1000);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(origin.get(), &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ucudnn::test
