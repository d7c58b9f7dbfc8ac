// Times making plans of the real library for parts of a convolution, without a GPU. A part has
// another mini-batch or is a tile. Its plan is made from the JSON of the undivided convolution's
// plan, is finalized, and is asked for its workspace.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "convolution/tiles.h"
#include "cudnn/graph_engines.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"
#include "tuning/fitting_grids.h"

namespace {

using namespace ucudnn;
using namespace ucudnn::cudnn;

constexpr int kEngines[] = {1, 38, 47, 67};

// Makes the plan of a part and asks for its workspace. Returns false if the library refuses the
// plan.
bool Makes(const GraphTemplate& plan, const PlanEdit& part) {
  const auto built = BuildPart(test::RealCudnn(), test::DescribedDevice(), plan, part);
  return built.ok() && PlanWorkspace(test::RealCudnn(), built->get()).ok();
}

// For each engine that supports `whole`, makes the plans of all parts that the engine supports,
// `repetitions` times. Prints the least and the median time of a part.
void Print(const ConvolutionProblem& whole, const std::vector<PlanEdit>& parts, int repetitions) {
  const test::Graph graph(whole);
  for (const int engine : kEngines) {
    const auto descriptor = graph.Plan(engine);
    if (!descriptor) continue;
    const auto plan = ReadTemplate(test::RealCudnn(), descriptor->get());
    if (!plan.ok()) {
      std::fprintf(stderr, "%s\n", plan.message().c_str());
      std::exit(1);
    }
    std::vector<PlanEdit> served;
    std::copy_if(parts.begin(), parts.end(), std::back_inserter(served),
                 [&](const PlanEdit& part) { return Makes(*plan, part); });
    std::vector<double> samples;
    for (int i = 0; i < repetitions; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      for (const PlanEdit& part : served) Makes(*plan, part);
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - begin;
      samples.push_back(taken.count());
    }
    std::sort(samples.begin(), samples.end());
    const double count = std::max<double>(1, static_cast<double>(served.size()));
    std::printf("%-10s %zu of %zu parts: min_ms_each=%.3f median_ms_each=%.3f\n",
                plan->convolution.engine.Text().c_str(), served.size(), parts.size(),
                samples.front() / count, samples[samples.size() / 2] / count);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 9;
  const ConvolutionProblem batch =
      test::ProblemWith({.n = 256, .c = 64, .k = 128, .x = {1, 56, 56}, .alignment = 16});
  std::vector<PlanEdit> parts(256, PlanEdit{batch});
  for (int n = 1; n <= 256; ++n) parts[static_cast<size_t>(n - 1)].problem.n = n;
  std::printf("mini-batches of 1 to 256 images; allowed_ms_each=0.4\n");
  Print(batch, parts, repetitions);

  const ConvolutionProblem image =
      test::ProblemWith({.n = 1, .c = 64, .k = 128, .x = {1, 1024, 1024}, .alignment = 16});
  parts.clear();
  for (const TileGrid& grid : tuning::GridsOf(image)) {
    const Result<Tiles> cut = CutIntoTiles(image, grid);
    for (const TileKind& kind : cut->kinds) parts.push_back({kind.problem});
  }
  std::printf("tiles of one image; allowed_ms_each=0.3\n");
  Print(image, parts, repetitions);
  return 0;
}
