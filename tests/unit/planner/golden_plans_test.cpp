// Compares plans with reviewed golden files, to notice when a change of costs or of the search
// changes a plan. UCUDNN_TEST_WRITE_GOLDEN=1 writes the files anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "planner/cost/deepa_paper.h"
#include "planner/graph/networks.h"
#include "planner/layout/strategies.h"
#include "planner/machine/presets.h"

namespace ucudnn::planner {
namespace {

using Json = nlohmann::ordered_json;

struct Case {
  const char* file;
  const char* network;
  const char* machine;
  int batch;
  bool paper;  // true: DeePaPaperModel; false: MachineCostModel with a roofline and
               // UpdateModel::kHierarchical
};

const Case kCases[] = {
    {"alexnet-paper", "alexnet", "k80x16", 512, true},
    {"vgg16-paper", "vgg16", "k80x16", 512, true},
    {"inception-v3-paper", "inception-v3", "k80x16", 512, true},
    {"alexnet-k80x16", "alexnet", "k80x16", 512, false},
    {"vgg16-p100x4x4", "vgg16", "p100x4x4", 512, false},
    {"resnet50-h200x8", "resnet50", "h200x8", 256, false},
};

std::string PathOf(const Case& one) {
  return std::string(PLANNER_TEST_GOLDEN) + "/" + one.file + ".json";
}

Json PlanOf(const Case& one) {
  const Machine machine = *MachineByName(one.machine);
  const Roofline roofline(machine.device);
  const DeePaPaperModel paper;
  const MachineCostModel modelled(machine, UpdateModel::kHierarchical, roofline);
  const CostModel& model = one.paper ? static_cast<const CostModel&>(paper) : modelled;
  PlanningOptions options;
  options.update = one.paper ? UpdateModel::kParameterServer : UpdateModel::kHierarchical;
  const PlanningProblem problem = *BuildPlanningProblem(
      *BuildLayerGraph(*BuildNetwork(one.network), one.batch), machine.Devices(), model, options);
  const std::vector<ParallelLayout> layouts = *CompareLayouts(problem, machine.Devices());
  Json plan = {{"network", one.network}, {"machine", one.machine}, {"batch", one.batch}};
  for (const ParallelLayout& layout : layouts) {
    plan["strategies"][StrategyName(layout.strategy)] = {
        {"total_ms", layout.cost.total_ms},
        {"transfer_bytes", layout.cost.transfer_bytes},
        {"update_bytes", layout.cost.update_bytes},
        {"memory_bytes", layout.cost.memory_bytes}};
  }
  for (int layer = 0; layer < static_cast<int>(problem.graph.layers.size()); ++layer) {
    plan["deepa"][problem.graph.layers[static_cast<size_t>(layer)].name] =
        ShortText(ConfigurationOf(problem, layouts.back().assignment, layer).degrees);
  }
  return plan;
}

class GoldenPlan : public testing::TestWithParam<Case> {};

TEST_P(GoldenPlan, IsFoundAgain) {
  Json found = PlanOf(GetParam());
  if (std::getenv("UCUDNN_TEST_WRITE_GOLDEN") != nullptr) {
    std::ofstream(PathOf(GetParam())) << found.dump(1) << "\n";
  }
  std::ifstream file(PathOf(GetParam()));
  Json kept = Json::parse(file, nullptr, false);
  ASSERT_TRUE(kept.is_object()) << PathOf(GetParam());
  ASSERT_EQ(found["strategies"].size(), kept["strategies"].size());
  for (const auto& [name, strategy] : kept["strategies"].items()) {
    const double total_ms = strategy["total_ms"];
    EXPECT_NEAR(found["strategies"][name]["total_ms"], total_ms, 1e-9 * total_ms) << name;
    strategy.erase("total_ms");
    found["strategies"][name].erase("total_ms");
  }
  EXPECT_EQ(found, kept);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenPlan, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.file;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace ucudnn::planner
