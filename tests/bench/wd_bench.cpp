// Times the exact solver of Workspace Division. At most 1 ms is allowed for 562 choices, which is
// the size of the paper's ResNet-50 (the paper's GLPK took 5.46 ms). At most 1 s is allowed for
// 10,000 kernels of 12 choices, with separate workspaces or as a running network whose kernels
// share memory. Selections must be proven optimal. Also compares the solver with GLPK on equal
// instances: the solver must be at least 10 times as fast (geometric mean). GLPK gets sizes in MiB,
// and its matrix is loaded only once.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "planning/knapsack_solver.h"
#include "planning/network_division.h"
#include "planning/plugin_solver.h"
#include "planning/preferred_solver.h"
#include "tests/bench/timed.h"
#include "tests/unit/planning/random_choices.h"

namespace ucudnn::planning {
namespace {

constexpr int kEngines = 8;
constexpr size_t kGranule = 512;
constexpr int64_t kMiB = 1 << 20;
constexpr char kNotOptimal[] = "not proven optimal";

// Returns random kernels that have `choices` choices together. The numbers of choices of two
// kernels differ by at most one.
std::vector<Choices> Network(unsigned seed, int kernels, int choices) {
  std::mt19937 random(seed);
  std::vector<Choices> network;
  for (int i = 0; i < kernels; ++i) {
    const auto count = static_cast<size_t>(choices / kernels + (i < choices % kernels ? 1 : 0));
    Choices kernel;
    while (kernel.size() < count) kernel = KernelChoices(random, kEngines, kGranule);
    Thin(random, count, kernel);
    network.push_back(std::move(kernel));
  }
  return network;
}

// The arguments are the number of kernels, the number of choices of all kernels, the budget in MiB,
// and the milliseconds that are allowed.
void Divide(benchmark::State& state) {
  const int kernels = static_cast<int>(state.range(0));
  const auto budget = static_cast<size_t>(state.range(2) * kMiB);
  KnapsackSolver solver;
  std::vector<std::vector<Choices>> networks;
  for (unsigned seed = 0; seed < 8; ++seed) {
    networks.push_back(Network(seed, kernels, static_cast<int>(state.range(1))));
  }
  size_t at = 0;
  size_t choices = 0;
  for (const Choices& kernel : networks[0]) choices += kernel.size();
  state.counters["choices"] = static_cast<double>(choices);
  bench::TimedMs(state, static_cast<double>(state.range(3)), [&] {
    const auto selection = solver.Solve(networks[at++ % networks.size()], budget);
    return selection.ok() && selection->optimal ? "" : kNotOptimal;
  });
}
BENCHMARK(Divide)
    ->Args({159, 562, 64, 1})
    ->Args({159, 562, 512, 1})
    ->Args({159, 562, 2544, 1})  // the budget is 16 MiB for each kernel
    ->Args({10000, 120000, 8192, 1000})
    ->Args({10000, 120000, 160000, 1000})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// Makes the kernels of a running network from their choices, and spreads them over `lanes` lanes
// (planning/network_division.h).
std::vector<NetworkKernel> NetworkOf(const std::vector<Choices>& kernels, int lanes) {
  std::vector<NetworkKernel> network;
  for (const Choices& choices : kernels) {
    NetworkKernel& kernel = network.emplace_back();
    for (const Choice& choice : choices) {
      kernel.choices.push_back(
          {{{{"legacy:1", 1, choice.time_ms, choice.workspace_bytes, true}, 1}}});
    }
    // Every hundredth kernel runs on two lanes, since lanes without a common kernel would be
    // independent problems.
    const int number = static_cast<int>(network.size());
    kernel.lanes = {number % lanes};
    if (lanes > 1 && number % 100 == 0) kernel.lanes.push_back((number + number / 100) % lanes);
    if (kernel.lanes.back() == kernel.lanes.front()) kernel.lanes.resize(1);
  }
  return network;
}

// Divides the budget of a running network with WorkspaceDivision::kConcurrent. The arguments are
// the number of kernels, the number of choices of all kernels, the budget in MiB, the number of
// lanes, and the milliseconds that are allowed.
void DivideRunning(benchmark::State& state) {
  const int kernels = static_cast<int>(state.range(0));
  const auto budget = static_cast<size_t>(state.range(2) * kMiB);
  const std::vector<NetworkKernel> network = NetworkOf(
      Network(0, kernels, static_cast<int>(state.range(1))), static_cast<int>(state.range(3)));
  KnapsackSolver solver;
  bench::TimedMs(state, static_cast<double>(state.range(4)), [&] {
    const auto divided = DivideNetwork(network, budget, WorkspaceDivision::kConcurrent, solver);
    return divided.ok() && divided->optimal ? "" : kNotOptimal;
  });
}
BENCHMARK(DivideRunning)
    ->Args({10000, 120000, 8192, 1, 1000})
    ->Args({10000, 120000, 8192, 4, 1000})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

#ifdef GLPK_PLUGIN
// Returns the milliseconds that the solver takes, or -1 if the result is not proven optimal.
double SolveMs(DivisionSolver& solver, const std::vector<Choices>& network, size_t budget_bytes) {
  const auto start = std::chrono::steady_clock::now();
  const Result<Selection> selection = solver.Solve(network, budget_bytes);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return selection.ok() && selection->optimal ? elapsed.count() * 1e3 : -1;
}

// Compares the exact solver with GLPK by turns. The arguments are the number of kernels, the number
// of choices of all kernels, and the budget in MiB.
void OverGlpk(benchmark::State& state) {
  const int kernels = static_cast<int>(state.range(0));
  const auto budget = static_cast<size_t>(state.range(2) * kMiB);
  auto glpk = OpenPluginSolver(GLPK_PLUGIN, "glpk", PreferredSolver::kOffline);
  if (!glpk.ok()) return state.SkipWithError(glpk.message().c_str());
  KnapsackSolver exact;
  double logarithms = 0;
  std::vector<double> exact_ms;
  std::vector<double> glpk_ms;
  unsigned seed = 0;
  for (auto iteration : state) {
    const std::vector<Choices> network = Network(seed++, kernels, static_cast<int>(state.range(1)));
    glpk_ms.push_back(SolveMs(**glpk, network, budget));
    exact_ms.push_back(SolveMs(exact, network, budget));
    if (glpk_ms.back() < 0 || exact_ms.back() < 0) {
      state.SkipWithError(kNotOptimal);
      break;
    }
    logarithms += std::log(glpk_ms.back() / exact_ms.back());
    state.SetIterationTime(exact_ms.back() / 1e3);
  }
  state.counters["glpk_ms"] = bench::Median(glpk_ms);
  state.counters["exact_ms"] = bench::Median(exact_ms);
  state.counters["times_faster"] = std::exp(logarithms / static_cast<double>(exact_ms.size()));
  state.counters["least_times_faster"] = 10;
}
BENCHMARK(OverGlpk)
    ->ArgsProduct({{15}, {130}, {64, 512}})
    ->ArgsProduct({{60}, {460}, {64, 512}})
    ->ArgsProduct({{159}, {562, 1500}, {64, 512}})
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond);
#endif

}  // namespace
}  // namespace ucudnn::planning

BENCHMARK_MAIN();
