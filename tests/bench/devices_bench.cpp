// Compares measuring on two devices with measuring on one. `ucudnn bench` runs on the CPU stand-in
// with one thread for each device and without a store, by turns on one device and on two. Two
// devices must be at least 1.6 times as fast. The bench needs two processors for itself.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bench/statistics.h"

namespace {

using ucudnn::bench::Median;
using ucudnn::bench::Minimum;

// Returns the seconds that the command takes to start and to measure AlexNet's 15 kernels.
double Seconds(const std::string& devices) {
  const std::string command =
      "env OMP_NUM_THREADS=1 HOSTGPU_DEVICES=2 " UCUDNN_COMMAND
      " bench --host --net alexnet --batch 8 --policy powerOfTwo --engines legacy --db none"
      " --devices " +
      devices + " > /dev/null";
  const auto begin = std::chrono::steady_clock::now();
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(1);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void TwoDevices(benchmark::State& state) {
  std::vector<double> one_s, two_s, times_faster;
  for (auto iteration : state) {
    one_s.push_back(Seconds("0"));
    two_s.push_back(Seconds("0,1"));
    times_faster.push_back(one_s.back() / two_s.back());
    state.SetIterationTime(two_s.back());
  }
  state.counters["one_min_s"] = Minimum(one_s);
  state.counters["two_min_s"] = Minimum(two_s);
  state.counters["times_faster_min"] = Minimum(one_s) / Minimum(two_s);
  state.counters["times_faster_median"] = Median(times_faster);
  state.counters["least_times_faster"] = 1.6;
}

BENCHMARK(TwoDevices)->UseManualTime()->Unit(benchmark::kSecond)->MinTime(0.01);

}  // namespace

BENCHMARK_MAIN();
