// The main function of a bench that takes the user's path: through the drop-in, with the null
// library in place of the real one and a store of its own, from which plans are made.
#pragma once

#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/bench/beside.h"

namespace ucudnn::bench {

inline std::string NullCudnn() { return Beside("null_cudnn/libcudnn.so.9"); }

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
