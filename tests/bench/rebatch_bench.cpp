// Times making plans of other mini-batch sizes from one plan of the real cuDNN, without a GPU. For
// every size from 1 to 256 a plan is made through the plan's JSON, finalized and asked for its
// workspace.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cudnn/graph_engines.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"

namespace {

using namespace ucudnn;
using namespace ucudnn::cudnn;

double Milliseconds(const GraphTemplate& plan, size_t& largest) {
  const auto begin = std::chrono::steady_clock::now();
  largest = 0;
  for (int n = 1; n <= 256; ++n) {
    const auto built = BuildPart(test::RealCudnn(), test::DescribedDevice(), plan,
                                 test::AtBatch(plan.convolution, n));
    const auto bytes = built.ok() ? PlanWorkspace(test::RealCudnn(), built->get())
                                  : Result<size_t>(built.status());
    if (!bytes.ok()) {
      std::fprintf(stderr, "%s at %d: %s\n", plan.convolution.engine.Text().c_str(), n,
                   bytes.message().c_str());
      std::exit(1);
    }
    largest = std::max(largest, *bytes);
  }
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  return taken.count();
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 9;
  const test::Graph graph(test::ProblemWith({.n = 256, .c = 64, .k = 128, .x = {1, 56, 56}}));
  std::printf("256 sizes of one plan; allowed_ms=100\n");
  for (const int engine : {1, 38, 47, 67}) {
    const auto descriptor = graph.Plan(engine);
    if (!descriptor) continue;
    const auto plan = ReadTemplate(test::RealCudnn(), descriptor->get());
    if (!plan.ok()) {
      std::fprintf(stderr, "%s\n", plan.message().c_str());
      return 1;
    }
    std::vector<double> samples;
    size_t largest = 0;
    for (int i = 0; i < repetitions; ++i) samples.push_back(Milliseconds(*plan, largest));
    std::sort(samples.begin(), samples.end());
    std::printf("%-10s min_ms=%.1f median_ms=%.1f largest_workspace=%zu\n",
                plan->convolution.engine.Text().c_str(), samples.front(),
                samples[samples.size() / 2], largest);
  }
  return 0;
}
