// Tests that device resources belong to one capture until its last graph is gone.
#include "spatial/capture_memory.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/support/device.h"
#include "tests/support/stand_in.h"

namespace ucudnn::test {
namespace {

class CaptureMemoryTest : public DeviceTest {
 protected:
  CaptureMemoryTest() {
    EXPECT_TRUE(outside.Create(context).ok());
    EXPECT_TRUE(origin.Create().ok());
  }
  // Captures a call that needs a buffer of `bytes`. Returns the capture's resources and its graph.
  std::pair<Result<spatial::ExchangeResources*>, CUgraph> Capture(size_t bytes) {
    EXPECT_EQ(cuStreamBeginCapture(origin.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
              CUDA_SUCCESS);
    const auto capture = cuda::CaptureOf(driver, origin.get());
    auto taken = memory.Take(*capture, origin.get(), {kernel, bytes, 5000, 1000}, outside);
    if (taken.ok()) {
      EXPECT_EQ(memory.Take(*capture, origin.get(), {kernel, 1}, outside).value(), *taken);
    }
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(origin.get(), &graph), CUDA_SUCCESS);
    return {std::move(taken), graph};
  }

  const cudnn::Functions functions = StandIn();
  const cuda::Driver& driver = *cuda::GetDriver();
  std::shared_ptr<int> kernel = std::make_shared<int>();
  spatial::ExchangeResources outside{driver, functions};
  cuda::Stream origin{driver};
  spatial::CaptureMemory memory;
};

TEST_F(CaptureMemoryTest, AGraphsResourcesAreNobodyElsesUntilItEnds) {
  const auto [first, first_graph] = Capture(1000);
  const auto [second, second_graph] = Capture(1000);
  EXPECT_NE(first.value(), second.value());
  EXPECT_EQ(cuGraphDestroy(first_graph), CUDA_SUCCESS);
  const auto [third, third_graph] = Capture(900);
  EXPECT_EQ(first.value(), third.value());
  EXPECT_EQ(memory.bytes(), 2000U);
  for (CUgraph graph : {second_graph, third_graph}) EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_GT(kernel.use_count(), 1) << "a graph may have launched it";
}

TEST_F(CaptureMemoryTest, ALimitIsKeptAndWhatGraphsLeftMakesRoom) {
  const auto [first, first_graph] = Capture(3000);
  EXPECT_TRUE(first.ok());
  const auto [refused, empty_graph] = Capture(2000);
  EXPECT_NE(refused.message().find("leaves 1000"), std::string::npos) << refused.message();
  for (CUgraph graph : {first_graph, empty_graph}) EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  const auto [second, second_graph] = Capture(4000);
  EXPECT_TRUE(second.ok());
  EXPECT_EQ(memory.bytes(), 4000U);
  EXPECT_EQ(kernel.use_count(), 2) << "the first graph's is released";
  EXPECT_EQ(cuGraphDestroy(second_graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ucudnn::test
