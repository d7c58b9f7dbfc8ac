// Measures how much longer a planned call of m pieces takes than m direct calls to a library whose
// convolutions return at once. At most 0.5 us + 0.3 us * m are allowed, and no heap allocation. The
// planned call goes through the drop-in and libucudnn, as a user's does, and a store makes exactly
// m pieces run. Direct and planned calls take turns in one run. Also measures the first call of a
// kernel whose measurements are in the store, for which at most 0.1 ms is allowed.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <stdlib.h>

#include <optional>
#include <vector>

#include "cuda/driver.h"
#include "cudnn/convolution_call.h"
#include "cudnn/descriptors.h"
#include "db/sqlite_store.h"
#include "tests/bench/users_path.h"
#include "tests/support/problem.h"
#include "tuning/measure.h"

namespace ucudnn {
namespace {

constexpr int kImages = 64;
constexpr int kCalls = 200;
constexpr int kStored = 200;  // the number of kernels for FirstCallFromStore
constexpr int kStoredPieces = 4;

ConvolutionProblem Problem(int c, int k) {
  return test::ProblemWith(
      {.n = kImages, .c = c, .k = k, .x = {1, 28, 28}, .alignment = cudnn::kLegacyAlignment});
}

// Returns the convolution that runs in `pieces` pieces. Each number of pieces has its own kernel
// and measurements.
ConvolutionProblem ProblemOf(int pieces) { return Problem(16 * pieces, 32); }

// Returns the kernel with number `kernel`, for FirstCallFromStore.
ConvolutionProblem StoredProblem(int kernel) { return Problem(16, 64 + kernel); }

// Holds the functions of a library and makes calls as a program that uses them does.
struct Program : bench::LibraryUser {
  using bench::LibraryUser::LibraryUser;

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
};

double Nanoseconds(const Program& program, const cudnn::ConvolutionCall& call, int calls) {
  return bench::Nanoseconds(
      calls, [&] { benchmark::DoNotOptimize(cudnn::Convolve(program.functions, call)); });
}

struct Setting {
  Setting() {
    const CUstream stream = bench::DeviceStream();
    void* const null_library = bench::OpenLibrary(bench::NullCudnn());
    convolutions = reinterpret_cast<long (*)()>(dlsym(null_library, "nullCudnnConvolutions"));
    direct = new Program(null_library, stream);
    Prime();
    planned = new Program(bench::OpenLibrary(bench::DropIn()), stream);
  }

  // Stores measurements which say that algorithm 0, the one that the program asks for, is slow, and
  // that algorithm 1 is fast in pieces.
  void Prime() const {
    db::SqliteStore store({getenv("UCUDNN_DATABASE")});
    const planning::Platform platform =
        bench::Take(tuning::DescribePlatform(*cuda::GetDriver(), direct->functions));
    const auto write = [&](const ConvolutionProblem& problem, int pieces) {
      const std::vector<planning::Measurement> rows = {
          {{"legacy:0", kImages, 100, 0, true}, 5, true},
          {{"legacy:1", kImages / pieces, 1, 0, true}, 5, true}};
      bench::Require(store.Write(problem, platform, rows, {kImages / pieces, kImages}));
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
  bench::Require(descriptors.Create(ProblemOf(pieces)));
  const cudnn::ConvolutionCall direct = setting.direct->CallOf(descriptors);
  const cudnn::ConvolutionCall planned = setting.planned->CallOf(descriptors);

  Nanoseconds(*setting.planned, planned, 1);  // this call makes the plan
  bench::ExpectPieces(setting.convolutions, pieces,
                      [&] { Nanoseconds(*setting.planned, planned, 1); });
  const bench::LeastTimes least = bench::PlannedOverDirect(
      state, 500 + 300 * pieces,
      [&] { return Nanoseconds(*setting.direct, direct, kCalls * pieces) / kCalls; },
      [&] { return Nanoseconds(*setting.planned, planned, kCalls) / kCalls; });
  state.counters["direct_min_ns"] = least.direct_ns;
  state.counters["planned_min_ns"] = least.other_ns;
}
BENCHMARK(PlannedOverDirect)
    ->RangeMultiplier(2)
    ->Range(1, 16)
    ->Apply(bench::InNanoseconds)
    ->Iterations(2000);

// Times the first call of a kernel, which reads the store, makes a plan and prepares its pieces.
void FirstCallFromStore(benchmark::State& state) {
  const Setting& setting = TheSetting();
  std::optional<cudnn::OwnedDescriptors> descriptors;
  int kernel = 0;
  bench::OverDirect(
      state,
      [&] {
        descriptors.emplace(setting.direct->functions);
        bench::Require(descriptors->Create(StoredProblem(kernel++ % kStored)));
        return Nanoseconds(*setting.direct, setting.direct->CallOf(*descriptors), kStoredPieces);
      },
      [&] {
        double taken = 0;
        bench::ExpectPieces(setting.convolutions, kStoredPieces, [&] {
          taken = Nanoseconds(*setting.planned, setting.planned->CallOf(*descriptors), 1);
        });
        return taken;
      });
  state.counters["allowed_ns"] = 100'000;
}
BENCHMARK(FirstCallFromStore)->Apply(bench::InNanoseconds)->Iterations(kStored);

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::bench::RunWithOwnStore(argc, argv); }
