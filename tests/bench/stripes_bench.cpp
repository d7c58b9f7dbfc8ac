// Measures how long a rank computes the geometry of a split kernel at its first call: how the
// kernel is cut, what is received and sent, and RecomputedBoxes. At most 20 us are allowed.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "convolution/recomputation.h"
#include "convolution/stripes.h"
#include "tests/bench/timed.h"

namespace ucudnn {
namespace {

struct CutKernel {
  const char* name;
  ConvolutionProblem local;
  SpatialGrid grid;
  int cell;
};

// Returns split kernels of a rank that has neighbours on both sides where the grid allows it.
std::vector<CutKernel> Kernels() {
  ConvolutionProblem local;
  local.n = 32;
  local.c = 64;
  local.k = 64;
  local.x = {1, 56, 224};
  local.w = {1, 3, 3};
  local.pad = {0, 1, 1};
  ConvolutionProblem stem = local;
  stem.w = {1, 7, 7};
  stem.pad = {0, 3, 3};
  stem.stride = {1, 2, 2};
  ConvolutionProblem volume = local;
  volume.spatial_rank = 3;
  volume.x = {64, 64, 64};
  volume.w = {3, 3, 3};
  volume.pad = {1, 1, 1};
  return {{"3x3 h4", local, {.h = 4}, 1},
          {"7x7 stride 2 h4", stem, {.h = 4}, 1},
          {"3x3x3 d2h2w2", volume, {.d = 2, .h = 2, .w = 2}, 3}};
}

void Geometry(benchmark::State& state) {
  CutKernel kernel = Kernels()[state.range(0)];
  kernel.local.operation = static_cast<Operation>(state.range(1));
  SetPackedStrides(kernel.local);
  AxisExtents extents;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    extents[axis].assign(kernel.grid.Parts()[axis], kernel.local.x[axis]);
  }
  state.SetLabel(kernel.name);
  bench::TimedUs(state, 20, [&]() -> std::string {
    const auto stripes = Stripes::Make(kernel.local, kernel.grid, kernel.cell, extents);
    if (!stripes.ok()) return stripes.message();
    auto received = stripes->Received();
    auto sent = stripes->Sent();
    auto boxes = RecomputedBoxes(*stripes, received);
    benchmark::DoNotOptimize(received);
    benchmark::DoNotOptimize(sent);
    benchmark::DoNotOptimize(boxes);
    return "";
  });
}
BENCHMARK(Geometry)
    ->ArgsProduct({{0, 1, 2},
                   {static_cast<int64_t>(Operation::kForward),
                    static_cast<int64_t>(Operation::kBackwardData)}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ucudnn

BENCHMARK_MAIN();
