// A program with one execution plan of a single image that runs as tiles, on the stand-in's real
// arithmetic.
#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <string>

#include "graph_program.h"

namespace ucudnn::interposer {

inline ConvolutionProblem Image(Operation operation, DataType type = DataType::kFloat) {
  return test::ProblemWith(
      {.operation = operation, .n = 1, .c = 16, .k = 16, .x = {1, 64, 64}, .type = type});
}

// Returns options with which plans are measured before their workspace is told.
inline Options Measuring(size_t limit_bytes) {
  Options options = test::Within(limit_bytes);
  options.tuning.on = true;
  options.tuning.kernel_seconds = options.tuning.process_seconds = 600;
  return options;
}

inline Options WithoutLimit() {
  Options options = Measuring(0);
  options.workspace_limit.reset();
  return options;
}

// Executes the whole image slowly, so that tiles in its memory are faster on every machine. The
// pause suffices where the image takes a few ms. Where it takes long, as in a build without
// optimisation, the repetitions make the whole image take four times as long as its tiles.
inline cudnnStatus_t ExecuteWholesSlowly(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t pack) {
  const auto read = cudnn::ReadTemplate(test::StandInGraphs(), plan);
  if (read.ok() && read->convolution.problem.x[1] == 64) {
    usleep(40'000);
    // A plan with a beta reads its own output, so it must not run again.
    // REQUIRES: no operand of the plan is in its output.
    const bool repeats = read->convolution.beta == 0;
    for (int i = 0; repeats && i < 3; ++i) ::cudnnBackendExecute(handle, plan, pack);
  }
  return ::cudnnBackendExecute(handle, plan, pack);
}

class TiledPlan : public OnePlan {
 public:
  TiledPlan(const ConvolutionProblem& problem, const GraphOptions& graph_options,
            const Options& options,
            decltype(cudnn::Functions::cudnnBackendExecute) execute = nullptr,
            decltype(cudnn::Functions::cudnnBackendFinalize) finalize = nullptr,
            planning::MeasurementStore* shared = nullptr)
      : OnePlan(problem, graph_options, options,
                execute == nullptr && !options.workspace_limit ? ExecuteWholesSlowly : execute,
                shared) {
    if (finalize != nullptr) program_.under.cudnnBackendFinalize = finalize;
    // Without a limit tiles must be faster than all undivided engines, on every machine.
    for (int engine = 0; engine < kMostEngines && !options.workspace_limit; ++engine) {
      if (whole_.Plan(engine)) PartsMeasured(engine, 1e4, problem.n);
    }
    MakePlans();
  }
  std::string Reason() { return Kernel()["reason"]; }
  int Pieces() {
    int pieces = 0;
    const nlohmann::json kernel = Kernel();
    for (const auto& run : kernel["plan"]) pieces += run["count"].get<int>();
    return pieces;
  }
  void ExpectTiles() {
    EXPECT_THAT(Reason(), ::testing::HasSubstr("tiles"));
    EXPECT_GT(Pieces(), 1);
  }
};

}  // namespace ucudnn::interposer
