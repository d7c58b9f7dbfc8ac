// The desirable set of a kernel measured with 8 engines under policy all: at most 10 ms for 256
// images. Three kinds of kernels: measured times as kernels have them (a fixed cost, a rate,
// noise), the same where batch boundaries are legal at multiples of 7 only, and the worst case,
// where nearly every row that becomes affordable makes something faster.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "planning/desirable_set.h"
#include "tests/bench/statistics.h"

namespace ucudnn::planning {
namespace {

constexpr int kEngines = 8;
enum Kind { kUsual, kStep, kWorst };

std::vector<MicroConfiguration> Measured(Kind kind, int n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  std::vector<MicroConfiguration> measured;
  for (int size = 1; size <= n; ++size) {
    for (int engine = 0; engine < kEngines; ++engine) {
      // More workspace, less time: large pieces of a fast engine come last.
      const double rate = 0.01 * (kEngines - engine);
      const double time_ms = kind == kWorst ? std::sqrt(size) * (kEngines - engine)
                                            : (0.02 * (1 + engine) + rate * size) * noise(random);
      const size_t workspace = (static_cast<size_t>(engine) * size << 20) + random() % 1024;
      measured.push_back({"legacy:" + std::to_string(engine), size, time_ms, workspace, true});
    }
  }
  return measured;
}

void DesirableSetOfAKernel(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  const auto kind = static_cast<Kind>(state.range(1));
  const std::vector<MicroConfiguration> measured = Measured(kind, n);
  size_t configurations = 0;
  std::vector<double> ms;
  for (auto iteration : state) {
    const auto start = std::chrono::steady_clock::now();
    const auto set = DesirableSet(measured, n, kind == kStep ? 7 : 1, ~size_t{0});
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    configurations = set.size();
    ms.push_back(elapsed.count() * 1e3);
    state.SetIterationTime(elapsed.count());
  }
  state.SetLabel(std::vector{"usual", "step 7", "worst"}[kind]);
  state.counters["configurations"] = static_cast<double>(configurations);
  state.counters["min_ms"] = bench::Minimum(ms);
  state.counters["median_ms"] = bench::Median(ms);
  if (n == 256) state.counters["allowed_ms"] = 10;
}
BENCHMARK(DesirableSetOfAKernel)
    ->ArgsProduct({{256, 1024}, {kUsual, kStep, kWorst}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ucudnn::planning

BENCHMARK_MAIN();
