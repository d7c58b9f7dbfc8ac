// Tests threads and processes that share measurements.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <iterator>
#include <thread>

#include "layer.h"
#include "libraries.h"
#include "queries.h"
#include "report_file.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

constexpr size_t kLent = 1 << 17;

// Asks for an algorithm for the layer with `n` images, and runs it `rounds` times.
void AskAndRun(Operation operation, int n, cudaStream_t stream, int rounds) {
  Convolution convolution(LayerProblem(operation, n));
  const Bytes expected = convolution.FillAndExpect(18);
  EXPECT_EQ(cudnnSetStream(convolution.handle(), stream), CUDNN_STATUS_SUCCESS);
  const GuardedMemory workspace(kLent);
  const Answer answer =
      Ask(DropIn(), Question::kFindEx, convolution, kAlgorithms, workspace.data(), kLent);
  ASSERT_EQ(answer.status, CUDNN_STATUS_SUCCESS);
  // Algorithms 0 to 2 are exact on integers.
  const cudnn::AlgorithmPerformance* const told = answer.FirstUpTo(2);
  SCOPED_TRACE(std::string(OperationName(operation)) + " of " + std::to_string(n) + " images");
  ASSERT_NE(told, nullptr) << "nothing would run";
  SCOPED_TRACE("algorithm " + std::to_string(told->algorithm));
  for (int i = 0; i < rounds; ++i) {
    EXPECT_EQ(convolution.Run(DropIn(), told->algorithm, workspace.data(), told->workspace_bytes),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_TRUE(convolution.OutputEquals(expected, convolution.TakeOutput()));
  }
  EXPECT_TRUE(convolution.NothingElseWasWritten());
  EXPECT_TRUE(workspace.GuardsAreIntact());
}

void RunOnFourThreads() {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      const OwnStream stream;
      for (const Operation operation : kOperations) {
        AskAndRun(operation, 8, stream.get(), 5);
        AskAndRun(operation, 4 + thread, stream.get(), 3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const nlohmann::json report = ReadReport();
  EXPECT_TRUE(report["fallbacks"].empty()) << report["fallbacks"].dump(2);
}

class Threads : public testing::Test {};

TEST_F(Threads, FourWithOwnHandlesAndStreamsOnTheSameAndOnOtherLayers) { RunOnFourThreads(); }

// UCUDNN_CHECK=1 compares every call with the undivided one.
class CheckedThreads : public testing::Test {};

TEST_F(CheckedThreads, FourAtOnceAreEachComparedOnTheirOwn) {
  PrimeLayer();
  ConvolutionsRun();
  RunOnFourThreads();
  int divided = 0;
  for (const Operation operation : kOperations) {
    for (const auto& kernel : KernelsOf(ReadReport(), LayerProblem(operation, 8))) {
      divided += Pieces(kernel) > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(divided, 0) << "nothing was compared";
}

class Store : public testing::Test {
 protected:
  static nlohmann::json Report(const std::string& name) {
    return ReadReport(Folder() + "/" + name);
  }
  static nlohmann::json Plans(const nlohmann::json& report) {
    nlohmann::json plans;
    for (const auto& kernel : report["kernels"]) {
      plans.push_back({kernel["op"], kernel["plan"], kernel["limit_bytes"]});
    }
    return plans;
  }
};

TEST_F(Store, Step) {
  for (const Operation operation : kOperations) AskAndRun(operation, 8, nullptr, 1);
}

TEST_F(Store, ColdRunMeasuresAndWarmRunsPlanTheSameFromWhatItStored) {
  const std::string path = Folder() + "/cold.db";
  for (const char* name : {"cold.json", "warm.json", "again.json"}) {
    ASSERT_TRUE(TestProcess("Store.Step", name, {{"UCUDNN_DATABASE", path}}).Passed());
  }
  EXPECT_GT(Report("cold.json")["measured"], 0);
  EXPECT_EQ(Plans(Report("cold.json")).size(), std::size(kOperations));
  for (const char* name : {"warm.json", "again.json"}) {
    EXPECT_EQ(Report(name)["measured"], 0);
    EXPECT_EQ(Plans(Report(name)), Plans(Report("cold.json")));
  }
}

TEST_F(Store, ProcessesThatMeasureAtOncePlanFromTheSameRows) {
  const std::string path = Folder() + "/shared.db";
  TestProcess one("Store.Step", "one.json", {{"UCUDNN_DATABASE", path}});
  TestProcess two("Store.Step", "two.json", {{"UCUDNN_DATABASE", path}});
  EXPECT_TRUE(one.Passed());
  EXPECT_TRUE(two.Passed());
  ASSERT_TRUE(TestProcess("Store.Step", "later.json", {{"UCUDNN_DATABASE", path}}).Passed());
  EXPECT_EQ(Report("later.json")["measured"], 0);
  EXPECT_EQ(Plans(Report("later.json")).size(), std::size(kOperations));
  EXPECT_EQ(Plans(Report("one.json")), Plans(Report("later.json")));
  EXPECT_EQ(Plans(Report("two.json")), Plans(Report("later.json")));
}

}  // namespace
}  // namespace ucudnn::test

int main(int argc, char** argv) {
  // Pieces fit the limit, and eight undivided images do not. With AVX-512 the limit is lower,
  // because oneDNN needs less workspace.
  const char* const limit = __builtin_cpu_supports("avx512f") ? "40000" : "60000";
  return ucudnn::test::RunSuites(
      argc, argv,
      {{"Threads", {}},
       {"CheckedThreads",
        {{"UCUDNN_CHECK", "1"}, {"UCUDNN_TUNE", "off"}, {"UCUDNN_WORKSPACE_LIMIT", limit}}},
       {"Store", {}}});
}
