// Helps benches that call cuDNN through the drop-in, as users do. A null library takes the place of
// the real cuDNN, and each bench plans from its own store.
#pragma once

#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "cudnn/functions.h"
#include "tests/bench/allocation_count.h"
#include "tests/bench/beside.h"
#include "tests/bench/device_stream.h"
#include "tests/bench/timed.h"

namespace ucudnn::bench {

inline std::string NullCudnn() { return Beside("null_cudnn/libcudnn.so.9"); }

// Prints the message and ends the bench with exit code 1.
[[noreturn]] inline void Fail(const std::string& message) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, message.c_str());
  std::exit(1);
}

inline void* OpenLibrary(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) Fail(dlerror());
  return library;
}

inline void Require(const Status& status) {
  if (!status.ok()) Fail(status.message());
}
template <typename T>
T Take(Result<T> result) {
  Require(result.status());
  return std::move(*result);
}

inline CUstream DeviceStream() { return Take(NewDeviceStream()); }

// Holds the functions of a library, and a handle that uses `stream`.
struct LibraryUser {
  LibraryUser(void* library, CUstream stream) {
    Require(
        cudnn::LoadFunctions([&](const char* name) { return dlsym(library, name); }, functions));
    if (functions.cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS ||
        functions.cudnnSetStream(handle, stream) != CUDNN_STATUS_SUCCESS) {
      Fail("no handle");
    }
  }
  cudnn::Functions functions;
  cudnnHandle_t handle = nullptr;
};

// Calls OverDirect for planned calls. Fails if they allocate on the heap.
template <typename Direct, typename Planned>
LeastTimes PlannedOverDirect(benchmark::State& state, double allowed_ns, const Direct& direct,
                             const Planned& planned) {
  long allocations = 0;
  const LeastTimes least = OverDirect(state, direct, [&] {
    const long before = Allocations();
    const double ns = planned();
    allocations += Allocations() - before;
    return ns;
  });
  state.counters["allowed_ns"] = allowed_ns;
  state.counters["allocations"] = static_cast<double>(allocations);
  if (allocations != 0) Fail("a planned call allocated");
  return least;
}

// Fails unless `run` makes `pieces` executions. `executions` returns the number of executions so
// far.
template <typename Run>
void ExpectPieces(long (*executions)(), int pieces, const Run& run) {
  const long before = executions();
  run();
  if (const long ran = executions() - before; ran != pieces) {
    Fail(std::to_string(ran) + " pieces ran in place of " + std::to_string(pieces));
  }
}

inline int RunWithOwnStore(int argc, char** argv) {
  std::string folder = std::filesystem::temp_directory_path() / "ucudnn_bench_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    std::perror(folder.c_str());
    return 1;
  }
  setenv("UCUDNN_REAL_CUDNN", NullCudnn().c_str(), 1);
  setenv("UCUDNN_DATABASE", (folder + "/measurements.db").c_str(), 1);
  setenv("UCUDNN_TUNE", "off", 1);
  setenv("UCUDNN_BATCH_SIZE_POLICY", "powerOfTwo", 1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace ucudnn::bench
