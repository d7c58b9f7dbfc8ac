// Measures how much longer a forwarded call takes than a direct one. A function that does nothing
// is called by turns directly and through the drop-in. At most 3 ns are allowed.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/bench/beside.h"
#include "tests/bench/timed.h"

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
  const auto call = [&] {
    benchmark::DoNotOptimize(function(&arguments[0], &arguments[1], &arguments[2], &arguments[3],
                                      &arguments[4], &arguments[5], &arguments[6], &arguments[7]));
  };
  return ucudnn::bench::Nanoseconds(kCalls, call) / kCalls;
}

void ForwardedOverDirect(benchmark::State& state) {
  const Forward direct = FunctionOf(NullCudnn());
  const Forward forwarded = FunctionOf(ucudnn::bench::DropIn());
  NanosecondsPerCall(forwarded);  // the first call looks up the null library's functions
  const ucudnn::bench::LeastTimes least = ucudnn::bench::OverDirect(
      state, [&] { return NanosecondsPerCall(direct); },
      [&] { return NanosecondsPerCall(forwarded); });
  state.counters["direct_min_ns"] = least.direct_ns;
  state.counters["forwarded_min_ns"] = least.other_ns;
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
