// Tests objects that are kept for a CUDA graph. They live as long as the graph, and as long as
// anything that was made from the graph.
#include "cuda/capture.h"

#include <gtest/gtest.h>

#include "tests/support/device.h"

namespace ucudnn::cuda {
namespace {

class CaptureTest : public test::DeviceTest {
 protected:
  CaptureTest() {
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  }
  ~CaptureTest() override { EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS); }
  // Ends the capture, calls `with_graph`, and then destroys the graph.
  template <typename WithGraph>
  void End(const WithGraph& with_graph) const {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    with_graph(graph);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  }

  const Driver& driver = *GetDriver();
  CUstream stream = nullptr;
};

TEST_F(CaptureTest, AGraphEndsWithTheLastThatWasMadeOfIt) {
  const auto capture = CaptureOf(driver, stream);
  ASSERT_TRUE(capture);
  const CaptureHold hold(driver, *capture);
  EXPECT_TRUE(hold.IsOf(*capture));
  CUgraphExec exec = nullptr;
  End([&](CUgraph graph) {
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  });
  EXPECT_FALSE(hold.IsOver());
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_TRUE(hold.IsOver());
}

TEST_F(CaptureTest, WhatAGraphKeepsIsReleasedWithIt) {
  auto kept = std::make_shared<int>();
  const std::weak_ptr<int> seen = kept;
  EXPECT_TRUE(KeepWithGraphOf(driver, stream, std::move(kept)).ok());
  EXPECT_FALSE(seen.expired());
  End([](CUgraph) {});
  EXPECT_TRUE(seen.expired());
}

TEST_F(CaptureTest, WhatNoGraphTakesIsReleasedAtOnceAndHasNoEnd) {
  End([](CUgraph) {});
  auto kept = std::make_shared<int>();
  const std::weak_ptr<int> seen = kept;
  EXPECT_FALSE(KeepWithGraphOf(driver, stream, std::move(kept)).ok()) << "nothing is captured";
  EXPECT_TRUE(seen.expired());
  EXPECT_FALSE(CaptureHold().IsOver());
  EXPECT_FALSE(CaptureHold(driver, {}).IsOver());
  Driver without = driver;
  without.cuUserObjectCreate = nullptr;
  EXPECT_FALSE(CaptureHold(without, {}).IsOver());
}

}  // namespace
}  // namespace ucudnn::cuda
