// Measures what a forwarded call costs over the direct one: the same function of a null library,
// called directly and through the drop-in, in turn, in one run. At most 3 ns are allowed.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bench/beside.h"

namespace {

using Forward = int (*)(void*, void*, const void*, void*, const void*, const void*, void*, void*);

std::string NullCudnn() { return ucudnn::bench::Beside("null_forward/libcudnn.so.9"); }

Forward FunctionOf(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = handle != nullptr ? dlsym(handle, "cudnnActivationForward") : nullptr;
  if (function == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Forward>(function);
}

double NanosecondsPerCall(Forward function) {
  constexpr int kCalls = 1000;
  int arguments[8] = {};
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    benchmark::DoNotOptimize(function(&arguments[0], &arguments[1], &arguments[2], &arguments[3],
                                      &arguments[4], &arguments[5], &arguments[6], &arguments[7]));
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / kCalls;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double Minimum(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

void ForwardedOverDirect(benchmark::State& state) {
  const Forward direct = FunctionOf(NullCudnn());
  const Forward forwarded = FunctionOf(ucudnn::bench::DropIn());
  NanosecondsPerCall(forwarded);  // the first call fills the slots
  std::vector<double> direct_ns, forwarded_ns, difference_ns;
  for (auto iteration : state) {
    direct_ns.push_back(NanosecondsPerCall(direct));
    forwarded_ns.push_back(NanosecondsPerCall(forwarded));
    difference_ns.push_back(forwarded_ns.back() - direct_ns.back());
    state.SetIterationTime(forwarded_ns.back() * 1e-9);
  }
  state.counters["direct_min_ns"] = Minimum(direct_ns);
  state.counters["forwarded_min_ns"] = Minimum(forwarded_ns);
  state.counters["over_min_ns"] = Minimum(forwarded_ns) - Minimum(direct_ns);
  state.counters["over_median_ns"] = Median(difference_ns);
}
BENCHMARK(ForwardedOverDirect)->UseManualTime()->Unit(benchmark::kNanosecond)->Iterations(5000);

}  // namespace

int main(int argc, char** argv) {
  setenv("UCUDNN_REAL_CUDNN", NullCudnn().c_str(), 1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
