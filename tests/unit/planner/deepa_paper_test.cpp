// Compares DeePaPaperModel with every value of DeePa's Tables 2 and 3, to the printed digits, and
// with ratios that do not depend on the bandwidth, which was fitted to the tables.
#include "planner/cost/deepa_paper.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/graph/networks.h"

namespace ucudnn::planner {
namespace {

struct Row {
  Degrees degrees;
  double transfer, compute, update, total;  // as printed
};

struct Costs {
  double transfer_ms = 0;
  double compute_ms = 0;
  double update_ms = 0;
  double Total() const { return transfer_ms + compute_ms + update_ms; }
};

// Returns the summed costs of the layers `names`, whose outputs have the degrees `degrees`. The
// input of the first layer has the degrees `from`.
Costs CostOf(const LayerGraph& graph, const std::vector<std::string>& names, const Degrees& from,
             const Degrees& degrees) {
  const DeePaPaperModel model;
  Costs costs;
  ParallelConfiguration source{from, 0};
  const ParallelConfiguration target{degrees, 0};
  for (const std::string& name : names) {
    const PlannedLayer& layer = graph.layers[static_cast<size_t>(graph.Find(name))];
    costs.transfer_ms += model.Transfer(layer, 0, {&source, 1}, {&target, 1}).ms.front();
    costs.compute_ms += model.Compute(layer, degrees).ms;
    costs.update_ms += model.UpdateMs(layer, target);
    EXPECT_TRUE(model.Compute(layer, degrees).measured) << name;
    source = target;
  }
  return costs;
}

// Expects that `value`, rounded to `digits` decimals, is `printed`. A value halfway between two
// decimals may be rounded up or down.
void ExpectPrinted(double value, double printed, int digits, const std::string& what) {
  EXPECT_NEAR(value, printed, 0.5 * std::pow(10, -digits) + 1e-9) << what;
}

TEST(DeePaPaper, Table2) {
  const LayerGraph alexnet = *BuildLayerGraph(*BuildNetwork("alexnet"), 512);
  const std::vector<Row> rows = {{{16, 1}, 0, 1.28, 1075, 1076},
                                 {{1, 16}, 134.4, 1.28, 0, 135.7},
                                 {{1, 4}, 33.6, 5.1, 0, 38.7},
                                 {{1, 2}, 16.8, 10.2, 0, 27.0},
                                 {{1, 1}, 8.4, 20.4, 0, 28.8}};
  for (const Row& row : rows) {
    const Costs costs = CostOf(alexnet, {"fc6"}, {16}, row.degrees);
    const std::string what = Describe(row.degrees);
    const int whole = row.update > 1000 ? 0 : 1;
    ExpectPrinted(costs.transfer_ms, row.transfer, 1, what);
    ExpectPrinted(costs.compute_ms, row.compute, row.compute < 2 ? 2 : 1, what);
    ExpectPrinted(costs.update_ms, row.update, whole, what);
    ExpectPrinted(costs.Total(), row.total, whole, what);
  }
}

TEST(DeePaPaper, Table3) {
  const LayerGraph vgg = *BuildLayerGraph(*BuildNetwork("vgg16"), 512);
  const std::vector<Row> rows = {{{16}, 0, 15.9, 134.4, 150.3},
                                 {{8}, 39.2, 31.8, 67.2, 138.2},
                                 {{4}, 39.2, 63.7, 33.6, 136.5},
                                 {{1, 1, 2, 2}, 39.2, 54.7, 33.6, 127.5},
                                 {{2}, 39.2, 127.4, 16.8, 183.4}};
  for (const Row& row : rows) {
    const Costs costs = CostOf(vgg, {"conv5_1", "conv5_2", "conv5_3"}, {16}, row.degrees);
    const std::string what = Describe(row.degrees);
    ExpectPrinted(costs.transfer_ms, row.transfer, 1, what);
    ExpectPrinted(costs.compute_ms, row.compute, 1, what);
    ExpectPrinted(costs.update_ms, row.update, 1, what);
    ExpectPrinted(costs.Total(), row.total, 1, what);
  }
}

// The update of 16 replicas takes |W| / |X| = 4096 outputs / 512 images = 8 times as long as the
// transfer to 16 parts, with any bandwidth. Update and transfer are proportional to the degree.
TEST(DeePaPaper, RatiosOfTable2NeedNoBandwidth) {
  const LayerGraph alexnet = *BuildLayerGraph(*BuildNetwork("alexnet"), 512);
  const auto cost = [&](const Degrees& degrees) { return CostOf(alexnet, {"fc6"}, {16}, degrees); };
  EXPECT_DOUBLE_EQ(cost({16}).update_ms / cost({1, 16}).transfer_ms, 8);
  EXPECT_DOUBLE_EQ(cost({1, 16}).transfer_ms, 16 * cost({1, 1}).transfer_ms);
  EXPECT_DOUBLE_EQ(cost({16}).update_ms, 8 * cost({2}).update_ms);
  EXPECT_DOUBLE_EQ(cost({1, 1}).compute_ms, 16 * cost({4, 4}).compute_ms);
}

// The text of section 7.1.2 states these degrees, and their rows have the least printed totals. The
// paper's tables mark another row as best, the one above.
TEST(DeePaPaper, TwoWorkersAreBestForTable2AndFourForTable3) {
  const DeePaPaperModel model;
  const auto best = [&](const std::string& network, const std::vector<std::string>& names) {
    const LayerGraph graph = *BuildLayerGraph(*BuildNetwork(network), 512);
    const PlannedLayer& layer = graph.layers[static_cast<size_t>(graph.Find(names.front()))];
    Degrees least;
    double least_ms = 1e9;
    for (const ParallelConfiguration& candidate : LegalConfigurations(layer, 16, {})) {
      if (candidate.degrees.c > 1 && names.size() > 1) continue;  // the table has no such rows
      const double ms = CostOf(graph, names, {16}, candidate.degrees).Total();
      if (ms < least_ms) {
        least_ms = ms;
        least = candidate.degrees;
      }
    }
    return least;
  };
  EXPECT_EQ(best("alexnet", {"fc6"}), (Degrees{1, 2}));
  EXPECT_EQ(best("vgg16", {"conv5_1", "conv5_2", "conv5_3"}), (Degrees{1, 1, 2, 2}));
}

TEST(DeePaPaper, MeasuredTimesScaleWithTheBatch) {
  const DeePaPaperModel model;
  const LayerGraph half = *BuildLayerGraph(*BuildNetwork("alexnet"), 256);
  const PlannedLayer& layer = half.layers[static_cast<size_t>(half.Find("fc6"))];
  EXPECT_DOUBLE_EQ(model.Compute(layer, {1, 2}).ms, 5.1);
  const PlannedLayer& other = half.layers[static_cast<size_t>(half.Find("fc7"))];
  EXPECT_FALSE(model.Compute(other, {1, 2}).measured);
}

TEST(DeePaPaper, EqualConfigurationsOfWholeChannelsMoveNothing) {
  const DeePaPaperModel model;
  const LayerGraph vgg = *BuildLayerGraph(*BuildNetwork("vgg16"), 512);
  const auto ms = [&](const char* name, const Degrees& degrees) {
    const PlannedLayer& layer = vgg.layers[static_cast<size_t>(vgg.Find(name))];
    const ParallelConfiguration same{degrees, 0};
    return model.Transfer(layer, 0, {&same, 1}, {&same, 1}).ms.front();
  };
  EXPECT_EQ(ms("conv5_2", {4, 1, 2, 2}), 0);
  EXPECT_EQ(ms("pool5", {1, 16}), 0);    // channel by channel
  EXPECT_GT(ms("conv5_2", {1, 16}), 0);  // every worker reads the channels of all workers
  EXPECT_GT(ms("fc7", {1, 2}), 0);
}

}  // namespace
}  // namespace ucudnn::planner
