// Times the measurement store. Prints how many rows per second several processes write to one file,
// and how long it takes to open the store of a whole network and read its rows, as a new process
// does.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "db/sqlite_store.h"
#include "tests/bench/statistics.h"
#include "tests/support/problem.h"

namespace ucudnn::db {
namespace {

const planning::Platform kPlatform{"NVIDIA H100 80GB HBM3", 91900, 13000};

class Folder {
 public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "store_bench_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string File() const { return path_ + "/measurements.db"; }

 private:
  std::string path_;
};

// Returns kernel number `index`. All kernels differ.
ConvolutionProblem Problem(int index) {
  return test::ProblemWith({.operation = static_cast<Operation>(index % 3),
                            .n = 128,
                            .c = 16 * (1 + index),
                            .k = 64,
                            .x = {1, 56, 56}});
}

std::vector<planning::Measurement> Rows(int sizes, int engines) {
  std::vector<planning::Measurement> rows;
  for (int size = 0; size < sizes; ++size) {
    for (int engine = 0; engine < engines; ++engine) {
      const std::string name = "graph:" + std::to_string(engine) + "[k2=1,k14=0]";
      rows.push_back({{name, 1 << size, 0.01 * (1 << size), size_t{1} << 20, true}, 5, false});
    }
  }
  return rows;
}

double WallMs() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Runs several processes, each of which writes rows of its own kernels. The arguments are the
// number of processes, the rows of a transaction, and the rows that all processes write together.
void Writers(benchmark::State& state) {
  const auto processes = static_cast<int>(state.range(0));
  const auto rows = static_cast<int>(state.range(1));
  const int writes = std::max(1, static_cast<int>(state.range(2)) / processes / rows);
  for (auto iteration : state) {
    const Folder folder;
    const double start = WallMs();
    std::vector<pid_t> children;
    for (int process = 0; process < processes; ++process) {
      const pid_t child = fork();
      if (child != 0) {
        children.push_back(child);
        continue;
      }
      SqliteStore store({folder.File()});
      int failed = 0;
      for (int write = 0; write < writes; ++write) {
        const Status status =
            store.Write(Problem(process * writes + write), kPlatform, Rows(1, rows), {1});
        failed += status.ok() ? 0 : 1;
      }
      _exit(failed == 0 ? 0 : 1);
    }
    int failed = 0;
    for (const pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      failed += status == 0 ? 0 : 1;
    }
    const double seconds = (WallMs() - start) / 1e3;
    state.SetIterationTime(seconds);
    const auto stored = SqliteStore({folder.File()}).List();
    const size_t expected = static_cast<size_t>(processes) * writes * rows;
    state.counters["rows_per_s"] = static_cast<double>(expected) / seconds;
    state.counters["lost_rows"] =
        static_cast<double>(expected) - static_cast<double>(stored.ok() ? stored->size() : 0);
    state.counters["failed_writers"] = failed;
  }
  state.counters["least_rows_per_s"] = 200;
}
BENCHMARK(Writers)
    ->ArgNames({"processes", "rows", "total"})
    ->Args({1, 4, 256})
    ->Args({32, 1, 512})
    ->Args({32, 4, 2048})
    ->Args({32, 32, 8192})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// Opens a store as a new process does, and reads all rows of a network. The argument is the number
// of kernels; each kernel has rows of 8 sizes with 4 engines.
void WarmStart(benchmark::State& state) {
  const auto kernels = static_cast<int>(state.range(0));
  const std::vector<planning::Measurement> rows = Rows(8, 4);
  const Folder folder;
  {
    SqliteStore store({folder.File()});
    for (int kernel = 0; kernel < kernels; ++kernel) {
      if (!store.Write(Problem(kernel), kPlatform, rows, {1, 2, 4, 8, 16, 32, 64, 128}).ok()) {
        return state.SkipWithError("the store cannot be written");
      }
    }
  }
  std::vector<double> open_ms, read_ms, wall_ms;
  for (auto iteration : state) {
    const double start_wall = WallMs();
    const double start = bench::ProcessorMs();
    SqliteStore store({folder.File()});
    size_t found = 0;
    double opened = start;
    for (int kernel = 0; kernel < kernels; ++kernel) {
      const auto known = store.Read(Problem(kernel), kPlatform);
      found += known.ok() ? known->rows.size() : 0;
      if (kernel == 0) opened = bench::ProcessorMs();
    }
    open_ms.push_back(opened - start);
    read_ms.push_back(bench::ProcessorMs() - opened);
    wall_ms.push_back(WallMs() - start_wall);
    state.SetIterationTime(wall_ms.back() / 1e3);
    if (found != rows.size() * kernels) return state.SkipWithError("rows are missing");
  }
  state.counters["open_cpu_min_ms"] = bench::Minimum(open_ms);
  state.counters["read_cpu_min_ms"] = bench::Minimum(read_ms);
  state.counters["wall_min_ms"] = bench::Minimum(wall_ms);
  state.counters["wall_median_ms"] = bench::Median(wall_ms);
  state.counters["allowed_ms"] = 20;
}
BENCHMARK(WarmStart)->ArgName("kernels")->Arg(500)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ucudnn::db

BENCHMARK_MAIN();
