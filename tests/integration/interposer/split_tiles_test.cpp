// Tests images that are split over two to four threads and whose local calls exceed the limit. The
// calls run as tiles of a thread's stripe, and all threads together give the result of the
// undivided convolution.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <ucudnn/ucudnn.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cases.h"
#include "libraries.h"
#include "report_file.h"
#include "split_rank.h"
#include "suites.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"

namespace ucudnn::test {
namespace {

constexpr int kStripe = 32;  // the number of rows of a rank
constexpr int kDirect = 1;   // the stand-in's direct engine, which is exact on whole numbers
constexpr size_t kLimit = size_t{128} << 10;
// The limit of local calls; exchanges get the rest of kLimit.
constexpr size_t kOfLocalCalls = kLimit / 4 * 3;

ConvolutionProblem ImageOf(Operation operation, int rows) {
  return AsRead(
      ProblemWith({.operation = operation, .n = 1, .c = 16, .k = 16, .x = {1, rows, 64}}));
}

// Runs a plan of the stripe twice, in the workspace that the plan reports. Returns the last result.
std::vector<double> RunStripe(cudnnHandle_t handle, cudaStream_t stream, Operation operation,
                              int rank) {
  Convolution stripe(ImageOf(operation, kStripe));
  stripe.UseHandle(handle);
  FillStripe(stripe, rank * kStripe);
  const Graph graph(stripe.problem(), GraphOptions{}, DropIn(), cudnn::PlanDevice{handle, nullptr});
  const auto plan = graph.Plan(kDirect);
  EXPECT_TRUE(plan);
  if (!plan) return {};
  const auto bytes = cudnn::PlanWorkspace(DropIn(), plan->get());
  EXPECT_TRUE(bytes.ok()) << bytes.message();
  EXPECT_LE(*bytes, kOfLocalCalls);
  const GuardedMemory workspace(*bytes);
  const auto pack = PackOf(stripe, workspace.data());
  EXPECT_TRUE(pack);
  if (!pack) return {};
  std::vector<double> values;
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ(cudnnBackendExecute(handle, plan->get(), pack->get()), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    values = ValuesOf(stripe, stripe.TakeOutput());
  }
  EXPECT_TRUE(stripe.NothingElseWasWritten());
  EXPECT_TRUE(workspace.GuardsAreIntact());
  return values;
}

void ExpectTiledAndExact(int ranks) {
  std::vector<std::vector<std::vector<double>>> given(static_cast<size_t>(ranks));
  OnThreads(ranks, [&](int rank) {
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    const OwnStream stream;
    const OwnHandle handle;
    EXPECT_EQ(cudnnSetStream(handle.get(), stream.get()), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(ucudnnSpatialJoin(handle.get(), rank), CUDNN_STATUS_SUCCESS) << ucudnnGetLastError();
    for (const Operation operation : kOperations) {
      given[static_cast<size_t>(rank)].push_back(
          RunStripe(handle.get(), stream.get(), operation, rank));
    }
  });
  for (size_t at = 0; at < std::size(kOperations); ++at) {
    SCOPED_TRACE(OperationName(kOperations[at]));
    const Expected expected(ImageOf(kOperations[at], ranks * kStripe));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(given[static_cast<size_t>(rank)][at], expected.PartOf(rank, ranks))
          << "rank " << rank;
    }
    const auto kernels = KernelsOf(ReadReport(), ImageOf(kOperations[at], kStripe));
    EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [](const auto& kernel) {
      return kernel["reason"].template get<std::string>().find("tiles") != std::string::npos &&
             Pieces(kernel) > 1;
    })) << ReadReport().dump(1);
  }
}

class TwoRanks : public testing::Test {};
class ThreeRanks : public testing::Test {};
class FourRanks : public testing::Test {};

TEST_F(TwoRanks, RunTheirLocalCallsInTiles) { ExpectTiledAndExact(2); }
TEST_F(ThreeRanks, RunTheirLocalCallsInTiles) { ExpectTiledAndExact(3); }
TEST_F(FourRanks, RunTheirLocalCallsInTiles) { ExpectTiledAndExact(4); }

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"TwoRanks", {{"UCUDNN_SPATIAL", "h2"}}},
       {"ThreeRanks", {{"UCUDNN_SPATIAL", "h3"}}},
       {"FourRanks", {{"UCUDNN_SPATIAL", "h4"}}}},
      {{"UCUDNN_SPATIAL_TRANSPORT", "loopback"},
       {"UCUDNN_SPATIAL_REDUCE", "all"},
       {"UCUDNN_ENGINES", "both"},
       {"UCUDNN_WORKSPACE_LIMIT", std::to_string(ucudnn::test::kLimit)}});
}
