// Measures what ucudnn adds to a program's first training step with UCUDNN_TUNE=after:2, if nothing
// was measured before. alexnet_step runs on the CPU stand-in, by turns without ucudnn and with
// ucudnn preloaded and an empty store. The time of the step includes the program's queries for
// algorithms, which come before the step. The step with ucudnn may take at most 1.1 times as long.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/bench/statistics.h"

namespace {

using ucudnn::bench::Median;
using ucudnn::bench::Minimum;

constexpr char kSettings[] =
    "env LD_LIBRARY_PATH=" STANDIN_FOLDER " OMP_WAIT_POLICY=passive UCUDNN_TUNE=after:2";

// Runs one step of 32 images and returns its time, including the queries before it.
double FirstStepMs(const std::string& settings, const std::string& asking) {
  const std::string command = settings + " " ALEXNET_STEP " 32 1 64 " + asking;
  FILE* const output = popen(command.c_str(), "r");
  char line[256];
  double first_ms = 0;
  while (output != nullptr && std::fgets(line, sizeof line, output) != nullptr) {
    std::sscanf(line, "batch %*d, workspace %*f MiB, step %*f ms, first with its queries %lf",
                &first_ms);
  }
  if (output == nullptr || pclose(output) != 0 || first_ms <= 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(1);
  }
  return first_ms;
}

void FirstStep(benchmark::State& state, const std::string& asking) {
  std::string folder = std::filesystem::temp_directory_path() / "first_step.XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::exit(1);
  const std::string plain = kSettings;
  const std::string store = folder + "/measurements.db";
  const std::string preloaded = plain + " XDG_RUNTIME_DIR=" + folder + " UCUDNN_DATABASE=" + store +
                                " UCUDNN_REAL_CUDNN=" STANDIN_CUDNN " LD_PRELOAD=" DROPIN;
  std::vector<double> plain_ms, ucudnn_ms, ratio;
  for (auto iteration : state) {
    std::filesystem::remove(store);
    plain_ms.push_back(FirstStepMs(plain, asking));
    ucudnn_ms.push_back(FirstStepMs(preloaded, asking));
    ratio.push_back(ucudnn_ms.back() / plain_ms.back());
    state.SetIterationTime(ucudnn_ms.back() * 1e-3);
  }
  std::filesystem::remove_all(folder);
  state.counters["plain_min_ms"] = Minimum(plain_ms);
  state.counters["ucudnn_min_ms"] = Minimum(ucudnn_ms);
  state.counters["over_min"] = Minimum(ucudnn_ms) / Minimum(plain_ms);
  state.counters["over_median"] = Median(ratio);
  state.counters["allowed"] = 1.1;
}

BENCHMARK_CAPTURE(FirstStep, get, "get")->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(FirstStep, find, "find")->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
