#include "planner/cost/compute.h"

#include <gtest/gtest.h>

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/graph/networks.h"
#include "tests/unit/planner/layers_of.h"
#include "tests/unit/planner/made_machine.h"

namespace ucudnn::planner {
namespace {

Device Limited(double tflops, double memory_gb_per_s) {
  Device device = MadeMachine({}).device;
  device.tflops = tflops;
  device.memory_gb_per_s = memory_gb_per_s;
  return device;
}

TEST(Roofline, ArithmeticDecidesWhereMemoryIsFast) {
  const LayerGraph alexnet = Network("alexnet", 512);
  const Roofline roofline(Limited(2, 1e6));
  // fc6 includes relu6 and drop6, which read and write 512 x 4096 floats, forward and backward.
  const double followers_ms = 2 * 2 * 2 * 512.0 * 4096 * 4 / 1e12;
  EXPECT_NEAR(roofline.Compute(LayerOf(alexnet, "fc6"), {}).ms,
              3 * 2.0 * 512 * 9216 * 4096 / 2e9 + followers_ms, 1e-9);
  EXPECT_NEAR(roofline.Compute(LayerOf(alexnet, "fc6"), {4, 4}).ms,
              (3 * 2.0 * 512 * 9216 * 4096 / 2e9 + followers_ms) / 16, 1e-9);
  // conv1 has 2 passes, not 3, because it computes no gradient of the data. It includes relu1.
  EXPECT_NEAR(
      roofline.Compute(LayerOf(alexnet, "conv1"), {}).ms,
      2 * 2.0 * 512 * 64 * 55 * 55 * 3 * 121 / 2e9 + 2 * 2 * 512.0 * 64 * 55 * 55 * 4 / 1e12, 1e-6);
}

TEST(Roofline, MemoryDecidesWhereArithmeticIsFast) {
  const LayerGraph alexnet = Network("alexnet", 512);
  const Roofline roofline(Limited(1e5, 1));
  const double bytes = 4.0 * 512 * 64 * (55 * 55 + 27 * 27);
  EXPECT_NEAR(roofline.Compute(LayerOf(alexnet, "pool1"), {}).ms, 2 * bytes / 1e6, 1e-6);
  EXPECT_FALSE(roofline.Compute(LayerOf(alexnet, "pool1"), {}).measured);
}

TEST(Roofline, TheLargestWorkerDecides) {
  const LayerGraph alexnet = Network("alexnet", 512);
  const Roofline roofline(Limited(1e-3, 1e6));
  const PlannedLayer& layer = LayerOf(alexnet, "conv3");  // 13 rows in parts of 4, 3, 3, 3
  EXPECT_NEAR(roofline.Compute(layer, {1, 1, 4}).ms / roofline.Compute(layer, {}).ms, 4.0 / 13,
              1e-6);
  EXPECT_DOUBLE_EQ(LargestShare(layer, {1, 1, 4, 2}), 4.0 / 13 * 7 / 13);
}

TEST(ComputeTable, AnswersWhereItHasARow) {
  const LayerGraph alexnet = Network("alexnet", 512);
  const Roofline roofline(Limited(2, 100));
  const auto table = ComputeTable::Parse(
      "layer,n,c,time_ms,workspace_bytes\nfc6,1,4,5.1,\nfc6,16,1,1.28,1024\n", "t.csv", roofline);
  ASSERT_TRUE(table.ok()) << table.message();
  const PlannedLayer& layer = LayerOf(alexnet, "fc6");
  EXPECT_EQ(table->Compute(layer, {1, 4}).ms, 5.1);
  EXPECT_TRUE(table->Compute(layer, {1, 4}).measured);
  EXPECT_EQ(table->Compute(layer, {16}).workspace_bytes, 1024);
  EXPECT_EQ(table->Compute(layer, {2}).ms, roofline.Compute(layer, {2}).ms);
  EXPECT_FALSE(table->Compute(layer, {2}).measured);
}

TEST(ComputeTable, FaultsAreNamed) {
  const Roofline roofline(Limited(2, 100));
  const auto fault = [&](const std::string& rows) {
    return ComputeTable::Parse("layer,n,time_ms\n" + rows, "t.csv", roofline).message();
  };
  EXPECT_EQ(fault("fc6,1,-2\n"), "t.csv:2: time_ms '-2'; expected 0 to 1e9");
  EXPECT_EQ(fault("fc6,1,nan\n"), "t.csv:2: time_ms 'nan'; expected 0 to 1e9");
  EXPECT_EQ(fault("fc6,0,2\n"), "t.csv:2: n '0'; expected 1 or more parts");
  EXPECT_EQ(fault("fc6,1,2\nfc6,1,3\n"), "t.csv:3: 'fc6' has these degrees already");
  EXPECT_EQ(fault(",1,2\n"), "t.csv:2: expected a layer and its time_ms");
}

// A store with measurements of two engines for every problem whose operation is not `missing`. The
// time of "fast" is a constant plus a part proportional to the size, and its workspace is 1 MiB for
// each image. "slow" takes twice that time and needs no workspace.
class KnownStore : public planning::MeasurementStore {
 public:
  Result<planning::KernelMeasurements> Read(const ConvolutionProblem& problem,
                                            const planning::Platform&) override {
    asked.push_back(problem);
    planning::KernelMeasurements known;
    if (problem.operation == missing) return known;
    for (int size = 1; size <= 512; size *= 2) {
      const double whole_ms =
          0.001 + size * 1e-9 * problem.k * problem.c * problem.x[1] * problem.x[2];
      known.rows.push_back({{"slow", size, 2 * whole_ms, 0, true}, 1, true});
      known.rows.push_back(
          {{"fast", size, whole_ms, static_cast<size_t>(size) << 20, true}, 1, true});
    }
    return known;
  }
  Status Write(const ConvolutionProblem&, const planning::Platform&,
               const std::vector<planning::Measurement>&, const std::vector<int>&) override {
    return Status::Ok();
  }
  Status MarkVerified(const ConvolutionProblem&, const planning::Platform&,
                      const std::vector<MicroConfiguration>&) override {
    return Status::Ok();
  }
  Result<std::optional<planning::EnginePromise>> FindPromise(
      const planning::EnginePromise&) override {
    return std::optional<planning::EnginePromise>();
  }
  Result<planning::EnginePromise> KeepPromise(const planning::EnginePromise& promise) override {
    return promise;
  }

  std::vector<ConvolutionProblem> asked;
  std::optional<Operation> missing;
};

TEST(MeasuredCompute, IsTheFastestDivisionOfAWorkersShare) {
  const LayerGraph vgg = Network("vgg16", 512);
  const PlannedLayer& layer = LayerOf(vgg, "conv5_2");
  KnownStore store;
  const Roofline roofline(Limited(1, 1));
  const MeasuredCompute measured(store, {"device", 0, 0}, size_t{8} << 20, roofline);
  const ComputeModel::Cost cost = measured.Compute(layer, {4, 2, 2, 1});
  ASSERT_EQ(store.asked.size(), 3u);
  EXPECT_EQ(store.asked[2].operation, Operation::kBackwardFilter);
  EXPECT_EQ(Describe(store.asked[0]), "forward 128x512x7x14 -> 256, 3x3 pad 1x1 fp32 nchw");
  EXPECT_TRUE(cost.measured);
  EXPECT_EQ(cost.workspace_bytes, 8 << 20);  // micro-batches of 8 images on "fast"
  EXPECT_NEAR(cost.ms, 3 * (16 * 0.001 + 128e-9 * 256 * 512 * 7 * 14), 1e-9);
}

TEST(MeasuredCompute, WithoutMeasurementsTheOtherModelAnswers) {
  const LayerGraph vgg = Network("vgg16", 512);
  KnownStore store;
  store.missing = Operation::kBackwardFilter;
  const Roofline roofline(Limited(1, 1));
  const MeasuredCompute measured(store, {"device", 0, 0}, size_t{8} << 20, roofline);
  for (const char* name : {"conv5_2", "pool1", "fc6"}) {
    const PlannedLayer& layer = LayerOf(vgg, name);
    EXPECT_EQ(measured.Compute(layer, {4}).ms, roofline.Compute(layer, {4}).ms);
    EXPECT_FALSE(measured.Compute(layer, {4}).measured);
  }
}

TEST(LayerMemory, IsParametersOutputAndWorkspace) {
  const LayerGraph alexnet = Network("alexnet", 512);
  const PlannedLayer& layer = LayerOf(alexnet, "fc6");
  const int64_t parameters = int64_t{9216} * 4096 + 4096;
  EXPECT_EQ(LayerMemoryBytes(layer, {16}, 1, 100), (3 * parameters + 32 * 4096) * 4 + 100);
  EXPECT_EQ(LayerMemoryBytes(layer, {1, 4}, 0, 0), (2 * parameters / 4 + 512 * 1024) * 4);
}

}  // namespace
}  // namespace ucudnn::planner
