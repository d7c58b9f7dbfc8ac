// Split calls of a rank in CUDA graphs.
#pragma once

#include "tests/unit/spatial/split_layer.h"

namespace ucudnn::test {

// A graph of what `record` enqueues on the rank's stream.
class Graph {
 public:
  Graph(RankState& rank, const std::function<void()>& record) : rank_(rank) {
    EXPECT_EQ(cuStreamBeginCapture(rank.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    record();
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(rank.stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphInstantiate(&exec_, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  }
  ~Graph() { EXPECT_EQ(cuGraphExecDestroy(exec_), CUDA_SUCCESS); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void Launch() const { EXPECT_EQ(cuGraphLaunch(exec_, rank_.stream), CUDA_SUCCESS); }
  void LaunchAndWait() const {
    Launch();
    EXPECT_EQ(cuStreamSynchronize(rank_.stream), CUDA_SUCCESS);
  }

 private:
  RankState& rank_;
  CUgraphExec exec_ = nullptr;
};

inline const Stripe& StripeOf(const SplitLayer& layer, const RankState& rank) {
  return layer.stripes[static_cast<size_t>(rank.rank)];
}

// Gives `use` the rank's call on tensors of its stripe, and returns what they hold afterwards.
inline StripeResult With(
    RankState& rank, const SplitLayer& layer,
    const std::function<cudnnStatus_t(const std::function<cudnnStatus_t()>& run)>& use) {
  const Stripe& stripe = StripeOf(layer, rank);
  return RunStripe(layer.whole, stripe, rank.handle, [&](const cudnn::ConvolutionCall& call) {
    return use([&] { return rank.Run(stripe.problem, call); });
  });
}

inline StripeResult RunInGraph(RankState& rank, const SplitLayer& layer, int launches = 1) {
  return With(rank, layer, [&](const std::function<cudnnStatus_t()>& run) {
    cudnnStatus_t status = kBroken;
    const Graph graph(rank, [&] { status = run(); });
    for (int i = 0; i < launches; ++i) graph.Launch();
    return status;
  });
}

}  // namespace ucudnn::test
