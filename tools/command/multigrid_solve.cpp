#include "command/multigrid_solve.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>

#include "base/byte_size.h"
#include "command/free_memory.h"
#include "command/multigrid_progress.h"

namespace ucudnn::command {
namespace {

using multigrid::HostNetwork;
using multigrid::Problem;

// The problem's image, as often as a mini-batch has images.
std::vector<double> Repeated(const std::vector<double>& image, int batch) {
  std::vector<double> images;
  for (int i = 0; i < batch; ++i) images.insert(images.end(), image.begin(), image.end());
  return images;
}

struct Pass {
  std::unique_ptr<HostNetwork> network;
  std::vector<double> logits;
  double seconds = 0;
};

Result<Pass> RunForward(const Problem& problem, const multigrid::NetworkSettings& settings,
                        const std::vector<double>& images) {
  Pass pass;
  UCUDNN_ASSIGN_OR_RETURN(pass.network,
                          HostNetwork::Make(problem.chain, problem.parameters, settings));
  const Stopwatch stopwatch;
  UCUDNN_ASSIGN_OR_RETURN(const double* logits, pass.network->Forward(images.data()));
  pass.seconds = stopwatch.Seconds();
  pass.logits.assign(logits, logits + pass.network->output_size() * settings.batch);
  return pass;
}

double RelativeError(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, reference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    reference += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / reference);
}

std::string CycleText(int cycle, double residual, const multigrid::SolveOptions& options) {
  std::string text = "cycle " + std::to_string(cycle) +
                     (options.tolerance ? " of at most " : " of ") + std::to_string(options.cycles);
  if (std::isnan(residual)) return text;
  char number[32];
  std::snprintf(number, sizeof number, ": residual %.2e", residual);
  return text + number;
}

}  // namespace

const multigrid::StageSolution& SolvedNetwork::LongestStage() const {
  return *std::max_element(stages.begin(), stages.end(),
                           [](const auto& a, const auto& b) { return a.steps < b.steps; });
}

double RelativeResidual(const multigrid::Solution& solution, const MultigridSettings& settings) {
  if (solution.residuals.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double residual = solution.residuals.back();
  const bool is_absolute = settings.network.forward.scale == multigrid::ResidualScale::kAbsolute;
  return is_absolute && solution.largest_state > 0 ? residual / solution.largest_state : residual;
}

Status CheckStateMemory(const Problem& problem, const multigrid::NetworkSettings& settings,
                        int ways) {
  const int64_t bytes = ways * StateBytes(problem, settings);
  const int64_t free = FreeMemoryBytes();
  if (bytes <= free) return Status::Ok();
  return Status::Error("the states of a mini-batch of " + std::to_string(settings.batch) +
                       (settings.batch == 1 ? " image take " : " images take ") +
                       FormatByteSize(static_cast<size_t>(bytes)) + ", and " +
                       FormatByteSize(static_cast<size_t>(free)) +
                       " of memory are free; expected a smaller --batch, or --storage c-points");
}

Result<SolvedNetwork> SolveOnce(const Problem& problem, const MultigridSettings& settings) {
  SolvedNetwork solved = {.facts = FactsOf(problem, settings.network),
                          .settings = settings,
                          .stages = {},
                          .seconds = 0,
                          .machine = {},
                          .serial_seconds = {},
                          .output_error = {}};
  multigrid::NetworkSettings network = settings.network;
  UCUDNN_RETURN_IF_ERROR(CheckStateMemory(problem, network, 1));
  MultigridProgress progress;
  progress.Show("solving");
  network.forward.measures_start = true;
  network.forward.watch = [&](int cycle, double residual) {
    progress.Show(CycleText(cycle, residual, network.forward));
  };
  const std::vector<double> images = Repeated(problem.input, network.batch);
  UCUDNN_ASSIGN_OR_RETURN(const Pass pass, RunForward(problem, network, images));
  solved.stages = pass.network->forward_solutions();
  solved.seconds = pass.seconds;
  solved.machine = settings.MachineText();
  if (!settings.checks) return solved;
  network.levels = 1;
  progress.Show("serial propagation, to compare with");
  UCUDNN_ASSIGN_OR_RETURN(const Pass serial, RunForward(problem, network, images));
  solved.serial_seconds = serial.seconds;
  solved.output_error = RelativeError(pass.logits, serial.logits);
  return solved;
}

}  // namespace ucudnn::command
