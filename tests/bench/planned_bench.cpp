// Measures what a planned call of m pieces costs over m direct calls, both to a library whose
// convolutions return at once: at most 0.5 us + 0.3 us * m, and no heap allocation. The planned
// call takes the user's path: the drop-in, libucudnn, and a store primed so that exactly m pieces
// run. Direct and planned calls take turns in one run. Also measures the first call of a kernel
// whose measurements a store has: at most 0.1 ms.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "cudnn/convolution_call.h"
#include "cudnn/descriptors.h"
#include "cudnn/functions.h"
#include "db/sqlite_store.h"
#include "tests/bench/allocation_count.h"
#include "tests/bench/beside.h"
#include "tests/bench/device_stream.h"
#include "tests/bench/own_store_main.h"
#include "tests/bench/statistics.h"
#include "tests/support/problem.h"
#include "tuning/measure.h"

namespace ucudnn {
namespace {

constexpr int kImages = 64;
constexpr int kCalls = 200;
constexpr int kStored = 200;  // kernels that a store has
constexpr int kStoredPieces = 4;

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "planned_bench: %s\n", message.c_str());
  std::exit(1);
}

void* Open(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) Fail(dlerror());
  return library;
}

cudnn::Functions FunctionsOf(void* library) {
  cudnn::Functions functions;
  const Status loaded =
      cudnn::LoadFunctions([&](const char* name) { return dlsym(library, name); }, functions);
  if (!loaded.ok()) Fail(loaded.message());
  return functions;
}

// Every m has a convolution of its own, and so rows of its own.
ConvolutionProblem ProblemOf(int pieces) {
  return test::ProblemWith({.n = kImages,
                            .c = 16 * pieces,
                            .k = 32,
                            .x = {1, 28, 28},
                            .alignment = cudnn::kLegacyAlignment});
}

// Returns a kernel of its own for each number.
ConvolutionProblem StoredProblem(int kernel) {
  return test::ProblemWith({.n = kImages,
                            .c = 16,
                            .k = 64 + kernel,
                            .x = {1, 28, 28},
                            .alignment = cudnn::kLegacyAlignment});
}

// One library's entry points, with objects of a program that uses them.
struct Program {
  Program(const cudnn::Functions& functions, CUstream stream) : functions(functions) {
    if (functions.cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS ||
        functions.cudnnSetStream(handle, stream) != CUDNN_STATUS_SUCCESS) {
      Fail("no handle");
    }
  }
  cudnn::ConvolutionCall CallOf(const cudnn::OwnedDescriptors& descriptors) const {
    static const float one = 1, zero = 0;
    static char device[64];
    cudnn::ConvolutionCall call;
    call.handle = handle;
    call.descriptors = descriptors.get();
    call.alpha = &one;
    call.beta = &zero;
    call.x = call.w = call.y = device;
    return call;
  }
  cudnn::Functions functions;
  cudnnHandle_t handle = nullptr;
};

double Nanoseconds(const Program& program, const cudnn::ConvolutionCall& call, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    benchmark::DoNotOptimize(cudnn::Convolve(program.functions, call));
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

struct Setting {
  Setting() {
    const Result<CUstream> stream = bench::NewDeviceStream();
    if (!stream.ok()) Fail(stream.status().message());
    void* const null_library = Open(bench::NullCudnn());
    convolutions = reinterpret_cast<long (*)()>(dlsym(null_library, "nullCudnnConvolutions"));
    direct = new Program(FunctionsOf(null_library), *stream);
    Prime();
    planned = new Program(FunctionsOf(Open(bench::DropIn())), *stream);
  }

  // Algorithm 0, which the program names, is slow; algorithm 1 is fast in pieces.
  void Prime() const {
    db::SqliteStore store({getenv("UCUDNN_DATABASE")});
    const auto platform = tuning::DescribePlatform(*cuda::GetDriver(), direct->functions);
    if (!platform.ok()) Fail(platform.message());
    const auto write = [&](const ConvolutionProblem& problem, int pieces) {
      const std::vector<planning::Measurement> rows = {
          {{"legacy:0", kImages, 100, 0, true}, 5, true},
          {{"legacy:1", kImages / pieces, 1, 0, true}, 5, true}};
      const Status written = store.Write(problem, *platform, rows, {kImages / pieces, kImages});
      if (!written.ok()) Fail(written.message());
    };
    for (const int pieces : {1, 2, 4, 8, 16}) write(ProblemOf(pieces), pieces);
    for (int kernel = 0; kernel < kStored; ++kernel) write(StoredProblem(kernel), kStoredPieces);
  }

  Program* direct = nullptr;
  Program* planned = nullptr;
  long (*convolutions)() = nullptr;
};

const Setting& TheSetting() {
  static const Setting setting;
  return setting;
}

void PlannedOverDirect(benchmark::State& state) {
  const Setting& setting = TheSetting();
  const int pieces = static_cast<int>(state.range(0));
  cudnn::OwnedDescriptors descriptors(setting.direct->functions);
  if (const Status made = descriptors.Create(ProblemOf(pieces)); !made.ok()) Fail(made.message());
  const cudnn::ConvolutionCall direct = setting.direct->CallOf(descriptors);
  const cudnn::ConvolutionCall planned = setting.planned->CallOf(descriptors);

  Nanoseconds(*setting.planned, planned, 1);  // this call decides
  const long before = setting.convolutions();
  Nanoseconds(*setting.planned, planned, 1);
  if (const long ran = setting.convolutions() - before; ran != pieces) {
    Fail(std::to_string(ran) + " pieces ran in place of " + std::to_string(pieces));
  }

  std::vector<double> direct_ns, planned_ns, over_ns;
  long allocations = 0;
  for (auto iteration : state) {
    direct_ns.push_back(Nanoseconds(*setting.direct, direct, kCalls * pieces) / kCalls);
    const long before_round = bench::Allocations();
    const double round_ns = Nanoseconds(*setting.planned, planned, kCalls);
    allocations += bench::Allocations() - before_round;
    planned_ns.push_back(round_ns / kCalls);
    over_ns.push_back(planned_ns.back() - direct_ns.back());
    state.SetIterationTime(planned_ns.back() * 1e-9);
  }
  state.counters["direct_min_ns"] = bench::Minimum(direct_ns);
  state.counters["planned_min_ns"] = bench::Minimum(planned_ns);
  state.counters["over_min_ns"] = bench::Minimum(planned_ns) - bench::Minimum(direct_ns);
  state.counters["over_median_ns"] = bench::Median(over_ns);
  state.counters["allowed_ns"] = 500 + 300 * pieces;
  state.counters["allocations"] = static_cast<double>(allocations);
  if (allocations != 0) Fail("a planned call allocated");
}
BENCHMARK(PlannedOverDirect)
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->Arg(8)
    ->Arg(16)
    ->UseManualTime()
    ->Unit(benchmark::kNanosecond)
    ->Iterations(2000);

// The first call of a kernel reads the store, decides, and prepares the pieces that it runs.
void FirstCallFromStore(benchmark::State& state) {
  const Setting& setting = TheSetting();
  std::vector<double> direct_ns, planned_ns, over_ns;
  int kernel = 0;
  for (auto iteration : state) {
    cudnn::OwnedDescriptors descriptors(setting.direct->functions);
    if (const Status made = descriptors.Create(StoredProblem(kernel++ % kStored)); !made.ok()) {
      Fail(made.message());
    }
    direct_ns.push_back(
        Nanoseconds(*setting.direct, setting.direct->CallOf(descriptors), kStoredPieces));
    const long before = setting.convolutions();
    planned_ns.push_back(Nanoseconds(*setting.planned, setting.planned->CallOf(descriptors), 1));
    if (setting.convolutions() - before != kStoredPieces) Fail("the first call ran no pieces");
    over_ns.push_back(planned_ns.back() - direct_ns.back());
    state.SetIterationTime(planned_ns.back() * 1e-9);
  }
  state.counters["over_min_ns"] = bench::Minimum(planned_ns) - bench::Minimum(direct_ns);
  state.counters["over_median_ns"] = bench::Median(over_ns);
  state.counters["allowed_ns"] = 100'000;
}
BENCHMARK(FirstCallFromStore)->UseManualTime()->Unit(benchmark::kNanosecond)->Iterations(kStored);

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::bench::RunWithOwnStore(argc, argv); }
