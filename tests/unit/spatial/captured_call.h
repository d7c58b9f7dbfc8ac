// Captures split calls of a rank in CUDA graphs, for tests.
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

// Calls `use` with two functions: the call of `first` on tensors of layer `a`, and the call of
// `second` on tensors of layer `b`. Returns the results of the two calls.
template <class First, class Second>
std::pair<StripeResult, StripeResult> WithBoth(
    First& first, const SplitLayer& a, Second& second, const SplitLayer& b,
    const std::function<void(const RunCall& run_a, const RunCall& run_b)>& use) {
  StripeResult of_b;
  StripeResult of_a = With(first, a, [&](const RunCall& run_a) {
    of_b = With(second, b, [&](const RunCall& run_b) {
      use(run_a, run_b);
      return kFine;
    });
    return kFine;
  });
  return {std::move(of_a), std::move(of_b)};
}

inline StripeResult RunInGraph(RankState& rank, const SplitLayer& layer, int launches = 1) {
  return With(rank, layer, [&](const RunCall& run) {
    cudnnStatus_t status = kBroken;
    const Graph graph(rank, [&] { status = run(); });
    for (int i = 0; i < launches; ++i) graph.Launch();
    return status;
  });
}

}  // namespace ucudnn::test
