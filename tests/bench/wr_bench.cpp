// Times the dynamic program of Workspace Reuse with 8 engines under policy all. At most 100 us are
// allowed for 256 images, and 1 ms for 1024. There are three kinds of kernels. The first has
// realistic times (a fixed cost, a rate and noise). The second has the same times, and a limit that
// excludes large pieces of every engine but the first. The third is the worst case, in which every
// size is worth trying as a piece.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "planning/workspace_reuse.h"
#include "tests/bench/timed.h"

namespace ucudnn::planning {
namespace {

constexpr int kEngines = 8;
constexpr size_t kNoLimit = ~size_t{0};
enum Kind { kUsual, kLimited, kWorst };

std::vector<MicroConfiguration> Measured(Kind kind, int n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  std::vector<MicroConfiguration> measured;
  for (int size = 1; size <= n; ++size) {
    for (int engine = 0; engine < kEngines; ++engine) {
      const double rate = 0.01 * (kEngines - engine);
      const double time_ms = kind == kWorst ? std::sqrt(size) * (1 + engine)
                                            : (0.02 * (1 + engine) + rate * size) * noise(random);
      const size_t workspace = static_cast<size_t>(engine) * size << 20;
      measured.push_back({"legacy:" + std::to_string(engine), size, time_ms, workspace, true});
    }
  }
  return measured;
}

void WorkspaceReuse(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  const auto kind = static_cast<Kind>(state.range(1));
  const std::vector<MicroConfiguration> measured = Measured(kind, n);
  const size_t limit = kind == kLimited ? size_t{64} << 20 : kNoLimit;
  state.SetLabel(std::vector{"usual", "limited", "worst"}[kind]);
  bench::TimedUs(state, n == 256 ? 100 : 1000, [&] {
    auto configuration = OptimizeWorkspaceReuse(measured, n, 1, limit);
    benchmark::DoNotOptimize(configuration);
    return "";
  });
}
BENCHMARK(WorkspaceReuse)
    ->ArgsProduct({{256, 1024}, {kUsual, kLimited, kWorst}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ucudnn::planning

BENCHMARK_MAIN();
