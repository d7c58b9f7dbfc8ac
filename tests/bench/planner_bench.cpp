// The planner's search over every power-of-two configuration (n, c, h, w) of every layer: 70 on 16
// devices, 210 on 64. Random costs: the time depends on the graph and the counts alone. At most 1
// ms for AlexNet and VGG-16, 20 ms for Inception-v3, 60 ms for ResNet-152, 5 s for NASNet-A; 1 s
// for Inception-v3 on 64 devices.
#include <benchmark/benchmark.h>

#include <chrono>
#include <vector>

#include "planner/search/search.h"
#include "tests/bench/statistics.h"
#include "tests/unit/planner/network_shapes.h"

namespace ucudnn::planner {
namespace {

void Searching(benchmark::State& state, const NetworkShape& shape, int configurations,
               double allowed_ms) {
  const SearchProblem problem = WithRandomCosts(shape, configurations, 1);
  std::vector<double> ms;
  for (auto iteration : state) {
    const auto start = std::chrono::steady_clock::now();
    auto result = Search(problem);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!result.ok() || !result->optimal) {
      state.SkipWithError("no optimal plan");
      return;
    }
    benchmark::DoNotOptimize(result);
    ms.push_back(elapsed.count() * 1e3);
    state.SetIterationTime(elapsed.count());
  }
  state.counters["min_ms"] = bench::Minimum(ms);
  state.counters["median_ms"] = bench::Median(ms);
  state.counters["allowed_ms"] = allowed_ms;
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
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
