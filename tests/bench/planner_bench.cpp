// Times the planner's search over every power-of-two configuration (n, c, h, w) of every layer. A
// layer has 70 of them on 16 devices and 210 on 64. Costs are random, since the time depends only
// on the graph and on the numbers of configurations. At most 1 ms is allowed for AlexNet and
// VGG-16, 20 ms for Inception-v3, 60 ms for ResNet-152, 5 s for NASNet-A, and 1 s for Inception-v3
// on 64 devices. Plan/ times everything that `ucudnn plan` computes for 16 devices: cost tables,
// all strategies and all min-marginals. Schedule/ times the schedule of Inception-v3's best layout
// and its text. Each of these may take 300 ms. Proof/ times the search with the default costs of
// `ucudnn plan`, and, where it is feasible, the elimination of the whole network in its cheapest
// order.
#include <benchmark/benchmark.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/graph/networks.h"
#include "planner/layout/strategies.h"
#include "planner/machine/presets.h"
#include "planner/schedule/build_schedule.h"
#include "planner/schedule/schedule_json.h"
#include "planner/search/bucket_tree.h"
#include "planner/search/search.h"
#include "tests/bench/timed.h"
#include "tests/unit/planner/hrnet.h"
#include "tests/unit/planner/network_shapes.h"

namespace ucudnn::planner {
namespace {

// Times `work`, which returns whether it found an optimal plan. If it did not, the bench fails.
template <typename Work>
void Timed(benchmark::State& state, double allowed_ms, const Work& work) {
  bench::TimedMs(state, allowed_ms, [&] { return work() ? "" : "no optimal plan"; });
}

void Searching(benchmark::State& state, const NetworkShape& shape, int configurations,
               double allowed_ms) {
  const SearchProblem problem = WithRandomCosts(shape, configurations, 1);
  Timed(state, allowed_ms, [&] {
    const auto result = Search(problem);
    benchmark::DoNotOptimize(result);
    return result.ok() && result->optimal;
  });
}

void Planning(benchmark::State& state, const std::string& network, double allowed_ms) {
  const Machine machine = *MachineByName("k80x16");
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kParameterServer, roofline);
  SearchOptions search;
  search.marginals = true;
  Timed(state, allowed_ms, [&] {
    const auto problem =
        BuildPlanningProblem(*BuildLayerGraph(*BuildNetwork(network), 512), 16, model);
    const auto layouts = CompareLayouts(*problem, 16, search);
    benchmark::DoNotOptimize(layouts);
    return layouts.ok() && layouts->back().optimal;
  });
}

// Times making the schedule of the best layout on 16 devices, and writing it as text. The time to
// find the layout is not included.
void Scheduling(benchmark::State& state, const std::string& network, double allowed_ms) {
  const Machine machine = *MachineByName("k80x16");
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kOwner, roofline);
  const Graph graph = *BuildNetwork(network);
  const auto problem = BuildPlanningProblem(*BuildLayerGraph(graph, 512), machine.Devices(), model);
  const auto layouts = CompareLayouts(*problem, machine.Devices(), {});
  bench::TimedMs(state, allowed_ms, [&]() -> std::string {
    const auto schedule = BuildSchedule(graph, *problem, layouts->back().assignment, machine);
    if (!schedule.ok()) return schedule.message();
    const std::string text = FormatSchedule(*schedule);
    state.counters["bytes"] = static_cast<double>(text.size());
    return "";
  });
}

Result<Graph> NetworkOf(const std::string& name) {
  return name == "hrnet-w18-small" ? HrNetW18Small() : BuildNetwork(name);
}

struct Proof {
  const char* network;
  const char* machine;
  int batch;
  double allowed_ms;
};

void Proving(benchmark::State& state, const Proof& proof) {
  const Machine machine = *MachineByName(proof.machine);
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kParameterServer, roofline);
  const auto problem = BuildPlanningProblem(
      *BuildLayerGraph(*NetworkOf(proof.network), proof.batch), machine.Devices(), model);
  SearchResult found;
  Timed(state, proof.allowed_ms, [&] {
    auto result = Search(problem->search);
    if (!result.ok()) return false;
    found = std::move(*result);
    return found.optimal;
  });
  if (!found.optimal) return;
  const double total = found.plans.front().total_ms;
  state.counters["total_ms"] = total;
  state.counters["lower_bound_ms"] = found.lower_bound_ms;
  state.counters["gap"] = 1 - found.lower_bound_ms / total;
  const SearchOptions options;
  const EliminationOrder order = CheapestElimination(problem->search, options.most_operations);
  state.counters["elimination_operations"] = order.operations;
  if (!Fits(order, options)) return;
  const auto start = std::chrono::steady_clock::now();
  const double least = BucketTree(problem->search, order.layers).LeastMs();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (least < total * (1 - 1e-9) || least > total * (1 + 1e-9)) {
    state.SkipWithError("elimination finds another total");
    return;
  }
  state.counters["elimination_ms"] = elapsed.count() * 1e3;
  state.counters["times_faster"] = elapsed.count() * 1e3 / state.counters["median_ms"];
}

void Register(const char* name, const NetworkShape& shape, int configurations, double allowed_ms) {
  benchmark::RegisterBenchmark(name, Searching, shape, configurations, allowed_ms)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace ucudnn::planner

int main(int argc, char** argv) {
  using namespace ucudnn::planner;
  Register("alexnet/16", AlexNetShape(), 70, 1);
  Register("vgg16/16", Vgg16Shape(), 70, 1);
  Register("inception-v3/16", InceptionV3Shape(), 70, 20);
  Register("resnet152/16", ResNetShape({3, 8, 36, 3}, true), 70, 60);
  Register("nasnet-a/16", NasNetShape(4), 70, 5000);
  Register("inception-v3/64", InceptionV3Shape(), 210, 1000);
  for (const char* network : {"alexnet", "vgg16", "resnet50", "inception-v3"}) {
    benchmark::RegisterBenchmark(("Plan/" + std::string(network)).c_str(), Planning, network, 300)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("Schedule/inception-v3", Scheduling, "inception-v3", 300)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  for (const Proof& proof : {Proof{"hrnet-w18-small", "h100x8", 256, 500},
                             {"nasnet-a", "k80x16", 512, 1000},
                             {"nasnet-a", "h100x8", 512, 300},
                             {"densenet121-nary", "k80x16", 512, 1000},
                             {"inception-v3", "k80x16", 512, 20}}) {
    const std::string name = "Proof/" + std::string(proof.network) + "/" + proof.machine;
    benchmark::RegisterBenchmark(name.c_str(), Proving, proof)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
