// Images are split over two to four threads, and each thread's local calls exceed the limit: they
// run as tiles of the thread's stripe, and all threads together give the result of the undivided
// convolution.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <ucudnn/ucudnn.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "cudnn/backend.h"
#include "libraries.h"
#include "report_file.h"
#include "split_rank.h"
#include "suites.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"

namespace ucudnn::test {
namespace {

constexpr int kStripe = 32;  // rows of a rank
constexpr int kDirect = 1;   // the stand-in's engine: whole numbers are exact
constexpr size_t kLimit = size_t{128} << 10;
// Exchanges take the rest of the limit.
constexpr size_t kOfLocalCalls = kLimit / 4 * 3;

ConvolutionProblem ImageOf(Operation operation, int rows) {
  return AsRead(
      ProblemWith({.operation = operation, .n = 1, .c = 16, .k = 16, .x = {1, rows, 64}}));
}

// Returns the part of the whole's result that a rank holds.
std::vector<double> PartOf(Convolution& whole, const std::vector<double>& values, int rank,
                           int ranks) {
  if (whole.problem().operation == Operation::kBackwardFilter) return values;
  const size_t columns = static_cast<size_t>(whole.output().extents[2]);
  const size_t plane = static_cast<size_t>(ranks) * kStripe * columns;
  std::vector<double> part;
  for (size_t at = 0; at < values.size(); at += plane) {
    const auto begin =
        values.begin() + static_cast<long>(at + static_cast<size_t>(rank) * kStripe * columns);
    part.insert(part.end(), begin, begin + static_cast<long>(kStripe * columns));
  }
  return part;
}

// Runs a plan of the stripe twice, in the workspace that the plan reports; returns the last result.
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
  auto pack = cudnn::BackendDescriptor::Create(DropIn(), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const std::array<int64_t, 3> uids = {kUidX, kUidW, kUidY};
  const std::array<void*, 3> pointers = {stripe.x.memory.data(), stripe.w.memory.data(),
                                         stripe.y.memory.data()};
  void* const scratch = workspace.data();
  EXPECT_TRUE(pack->Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, uids.data()).ok());
  EXPECT_TRUE(
      pack->Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers.data())
          .ok());
  EXPECT_TRUE(pack->Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch).ok());
  EXPECT_TRUE(pack->Finalize().ok());
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
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
      cudaStream_t stream = nullptr;
      cudnnHandle_t handle = nullptr;
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cudnnSetStream(handle, stream), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(ucudnnSpatialJoin(handle, rank), CUDNN_STATUS_SUCCESS) << ucudnnGetLastError();
      for (const Operation operation : kOperations) {
        given[static_cast<size_t>(rank)].push_back(RunStripe(handle, stream, operation, rank));
      }
      EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t at = 0; at < std::size(kOperations); ++at) {
    SCOPED_TRACE(OperationName(kOperations[at]));
    Convolution whole(ImageOf(kOperations[at], ranks * kStripe));
    FillStripe(whole, 0);
    const std::vector<double> expected = ValuesOf(whole, whole.Expected());
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(given[static_cast<size_t>(rank)][at], PartOf(whole, expected, rank, ranks))
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
  const auto over = [](const char* grid) {
    return ucudnn::test::Environment{
        {"UCUDNN_SPATIAL", grid},
        {"UCUDNN_SPATIAL_TRANSPORT", "loopback"},
        {"UCUDNN_SPATIAL_REDUCE", "all"},
        {"UCUDNN_ENGINES", "both"},
        {"UCUDNN_WORKSPACE_LIMIT", std::to_string(ucudnn::test::kLimit)}};
  };
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"TwoRanks", over("h2")}, {"ThreeRanks", over("h3")}, {"FourRanks", over("h4")}});
}
