// Times the computation of a kernel's desirable set. The kernel is measured with 8 engines, and the
// policy is all. At most 10 ms are allowed at 256 images. There are three kinds of kernels. The
// first has realistic times (a fixed cost, a rate and noise). The second has the same times, but
// batch boundaries are legal only at multiples of 7. The third is the worst case: as the workspace
// grows, nearly every row that newly fits makes some configuration faster. The bench also times
// the choice among grids of tiles with 400 measured rows. At most 1 ms is allowed for this choice.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "convolution/tiles.h"
#include "planning/desirable_set.h"
#include "planning/promise.h"
#include "tests/bench/timed.h"

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
      // An engine with more workspace per image is faster. In the worst case the time per image
      // also falls as the number of images grows.
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
  bench::TimedMs(state, n == 256 ? 10 : 0, [&] {
    configurations = DesirableSet(measured, n, kind == kStep ? 7 : 1, ~size_t{0}).size();
    return "";
  });
  state.SetLabel(std::vector{"usual", "step 7", "worst"}[kind]);
  state.counters["configurations"] = static_cast<double>(configurations);
}
BENCHMARK(DesirableSetOfAKernel)
    ->ArgsProduct({{256, 1024}, {kUsual, kStep, kWorst}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// Times the choice among four grids of three kinds of tiles each, from measured rows to the tiles
// that run.
void GridFromRows(benchmark::State& state) {
  const int rows = static_cast<int>(state.range(0));
  const ConvolutionProblem problem = [] {
    ConvolutionProblem image;
    image.n = 1;
    image.c = image.k = 256;
    image.x = {1, 1024, 1024};
    image.w = {1, 3, 3};
    image.pad = {0, 1, 1};
    image.x_strides = image.y_strides = {256 << 20, 1 << 20, 1 << 20, 1024, 1};
    return image;
  }();
  std::mt19937 random(1);
  std::uniform_real_distribution<double> time_ms(1, 2);
  const std::vector<Candidate> undivided = {{{"legacy:0", 1, 100, 0, true}}};
  std::vector<Tiling> tilings;
  for (const int parts : {32, 64, 128, 256}) {
    Tiling& tiling = tilings.emplace_back(Tiling{{.spatial = {1, parts, 1}}, {}});
    const auto tiles = CutIntoTiles(problem, tiling.grid);
    for (size_t kind = 0; kind < tiles->kinds.size(); ++kind) {
      auto& candidates =
          tiling.kinds.emplace_back(Tiling::Kind{tiles->CountOf(kind), {}}).candidates;
      for (int i = 0; i < rows / 12 + (rows % 12 > 0); ++i) {
        MicroConfiguration row = {EngineId("graph:" + std::to_string(i)), 1,
                                  time_ms(random) / parts, random() % (8 << 20), true};
        row.tile = tiles->kinds[kind].lengths;
        candidates.push_back({row, NumericClass::kDirect, false});
      }
    }
  }
  const PromiseRequest request = RequestFor(problem, 64 << 20, false);
  bench::TimedMs(state, 1, [&] {
    const auto promise = OrInTiles(MakePromise(undivided, request), tilings, undivided, request);
    const auto division = DivisionOf(problem, promise->configuration);
    return division.ok() && division->tiles != nullptr ? "" : "nothing is cut";
  });
}
BENCHMARK(GridFromRows)->Arg(400)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ucudnn::planning

BENCHMARK_MAIN();
