#include "command/multigrid_output.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/version.h"
#include "planner/graph/shapes.h"

namespace ucudnn::command {
namespace {

using multigrid::Outcome;
using multigrid::Stage;
using multigrid::StageSolution;
using nlohmann::ordered_json;

std::string Grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string ShapeText(const planner::Shape& shape) {
  std::vector<std::string> texts = {std::to_string(shape.c)};
  for (size_t axis = kMaxSpatial - static_cast<size_t>(shape.spatial_rank); axis < kMaxSpatial;
       ++axis) {
    texts.push_back(std::to_string(shape.extents[axis]));
  }
  return Join(texts, "x");
}

int64_t ParametersOf(const multigrid::Problem& problem) {
  int64_t count = 0;
  for (const multigrid::NodeWeights& weights : problem.parameters) {
    count += static_cast<int64_t>(weights.weights.size() + weights.bias.size());
  }
  return count;
}

// As the papers count them: convolutions, fully connected layers and the softmax.
int LayersOf(const multigrid::ResidualChain& chain) {
  int layers = 0;
  for (const planner::Node& node : chain.graph.nodes) {
    if (std::holds_alternative<planner::Convolution>(node.op) ||
        std::holds_alternative<planner::FullyConnected>(node.op) ||
        std::holds_alternative<planner::Softmax>(node.op)) {
      ++layers;
    }
  }
  return layers;
}

double StepOf(const multigrid::Problem& problem, size_t steps) {
  return problem.time > 0 ? problem.time / static_cast<double>(steps) : problem.step;
}

std::string RelaxationText(const multigrid::SolveOptions& options) {
  std::vector<std::string> texts;
  for (const multigrid::Relaxation& relaxation : options.relaxation) {
    std::string text = "F";
    for (int sweep = 0; sweep < relaxation.c_sweeps; ++sweep) text += "CF";
    texts.push_back(text);
  }
  return Join(texts, ",");
}

// The sentence behind a table: what became of the solve.
std::string Verdict(const multigrid::SolveOptions& options, const multigrid::Solution& solution) {
  const std::string cycles =
      std::to_string(solution.cycles) + (solution.cycles == 1 ? " cycle" : " cycles");
  switch (solution.outcome) {
    case Outcome::kConverged:
      return "converged in " + cycles;
    case Outcome::kRounding:
      return "converged to rounding in " + cycles + ": the residual falls no further";
    case Outcome::kEarly:
      return "stopped early, after the " + cycles + " asked for";
    case Outcome::kDirect:
      return "direct: relaxation alone is exact after " + cycles;
    case Outcome::kSerial:
      break;
  }
  if (solution.fallback.empty()) return "serial propagation: one level";
  return "serial propagation, since " + solution.fallback + " (cycle " +
         std::to_string(solution.cycles) + " of at most " + std::to_string(options.cycles) + ")";
}

void PrintStage(const MultigridSettings& settings, const StageSolution& stage) {
  const std::vector<double>& residuals = stage.solution.residuals;
  if (!residuals.empty()) std::printf("%5s  %12s  %8s\n", "cycle", "residual", "factor");
  for (size_t cycle = 0; cycle < residuals.size(); ++cycle) {
    if (std::isnan(residuals[cycle])) continue;
    std::printf("%5zu  %12.3e", cycle, residuals[cycle]);
    if (cycle > 0 && std::isfinite(residuals[cycle - 1])) {
      std::printf("  %8.4f", residuals[cycle] / residuals[cycle - 1]);
    }
    std::printf("\n");
  }
  std::printf("%s\n", Verdict(settings.network.forward, stage.solution).c_str());
}

const char* NormText(const MultigridSettings& settings) {
  return settings.network.forward.scale == multigrid::ResidualScale::kAbsolute
             ? "L2, absolute"
             : "L2, relative to the largest state";
}

ordered_json Head(const MultigridWords& words, const multigrid::Problem& problem,
                  const MultigridSettings& settings) {
  ordered_json head;
  head["format"] = "ucudnn-multigrid";
  head["version"] = 1;
  head["ucudnn"] = kVersion;
  head["network"] = problem.chain.graph.name;
  head["layers"] = LayersOf(problem.chain);
  head["parameters"] = ParametersOf(problem);
  head["weights"] = problem.has_drawn_weights ? "drawn" : words.weights;
  head["backend"] = words.backend;
  head["precision"] = "fp64";
  head["norm"] = NormText(settings);
  head["coarse"] = multigrid::NameOf(settings.network.coarse);
  head["relaxation"] = RelaxationText(settings.network.forward);
  head["cycle"] = words.cycle;
  head["start"] = words.start;
  head["batch"] = settings.network.batch;
  head["threads"] = settings.network.lanes;
  return head;
}

ordered_json NumbersOf(const std::vector<double>& numbers) {
  ordered_json array = ordered_json::array();
  for (const double number : numbers) {
    array.push_back(std::isfinite(number) ? ordered_json(number) : ordered_json(nullptr));
  }
  return array;
}

ordered_json Optional(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

}  // namespace

void PrintProblem(const MultigridWords& words, const multigrid::Problem& problem,
                  const MultigridSettings& settings) {
  std::printf("%s: %s layers, %s parameters%s\n", problem.chain.graph.name.c_str(),
              Grouped(LayersOf(problem.chain)).c_str(), Grouped(ParametersOf(problem)).c_str(),
              problem.has_drawn_weights ? (", drawn (seed " + words.seed + ")").c_str() : "");
  for (const auto& section : problem.chain.sections) {
    const auto* stage = std::get_if<Stage>(&section);
    if (stage == nullptr) continue;
    std::printf("stage of %s residual steps, %s, h = %.4g\n",
                Grouped(static_cast<int64_t>(stage->steps.size())).c_str(),
                ShapeText(stage->shape).c_str(), StepOf(problem, stage->steps.size()));
  }
  std::printf(
      "double precision on the host, %d thread%s; %s-cycle, %s, coarse operator %s, start "
      "%s\n",
      settings.network.lanes, settings.network.lanes == 1 ? "" : "s", words.cycle.c_str(),
      RelaxationText(settings.network.forward).c_str(), multigrid::NameOf(settings.network.coarse),
      words.start.c_str());
}

void PrintRun(const MultigridSettings& settings, const MultigridRun& run) {
  for (size_t i = 0; i < run.stages.size(); ++i) {
    const StageSolution& stage = run.stages[i];
    std::printf("\n");
    if (run.stages.size() > 1) std::printf("stage %zu, %d steps, ", i + 1, stage.steps);
    std::printf("%d level%s; residuals in %s\n", stage.levels, stage.levels == 1 ? "" : "s",
                NormText(settings));
    PrintStage(settings, stage);
  }
  std::printf("\n%.3g s (CPU time of this machine)", run.seconds);
  if (run.serial_seconds) std::printf("; serial propagation %.3g s", *run.serial_seconds);
  std::printf("\n");
  if (run.output_error) {
    std::printf("output against serial propagation: relative error %.2e in L2\n",
                *run.output_error);
  }
}

std::string FormatRun(const MultigridWords& words, const multigrid::Problem& problem,
                      const MultigridSettings& settings, const MultigridRun& run) {
  ordered_json json = Head(words, problem, settings);
  ordered_json stages = ordered_json::array();
  for (const StageSolution& stage : run.stages) {
    ordered_json one;
    one["steps"] = stage.steps;
    one["levels"] = stage.levels;
    one["residuals"] = NumbersOf(stage.solution.residuals);
    one["cycles"] = stage.solution.cycles;
    one["status"] = multigrid::NameOf(stage.solution.outcome);
    one["fallback"] = stage.solution.fallback;
    one["largest_state"] = Optional(std::isfinite(stage.solution.largest_state)
                                        ? std::optional(stage.solution.largest_state)
                                        : std::nullopt);
    stages.push_back(std::move(one));
  }
  // Of the longest stage, for readers that look at one.
  const ordered_json* longest = &stages.front();
  for (const ordered_json& stage : stages) {
    if (stage["steps"] > (*longest)["steps"]) longest = &stage;
  }
  for (const char* key : {"residuals", "cycles", "status"}) json[key] = (*longest)[key];
  json["output_error"] = Optional(run.output_error);
  json["cpu_seconds"] = run.seconds;
  json["serial_cpu_seconds"] = Optional(run.serial_seconds);
  json["stages"] = std::move(stages);
  return json.dump(2) + "\n";
}

void PrintEpochHead() {
  std::printf("\n%5s  %9s  %7s  %7s  %7s  %9s\n", "epoch", "loss", "top-1", "cycles", "serial",
              "CPU s");
}

void PrintEpoch(int number, const multigrid::EpochResult& epoch, double seconds) {
  std::printf("%5d  %9.5f  %6.2f%%  %7lld  %7d  %9.3g\n", number, epoch.loss, 100 * epoch.top1,
              static_cast<long long>(epoch.cycles), epoch.serial_solves, seconds);
  for (const multigrid::CheckedStep& check : epoch.checks) {
    std::printf("       step %d against serial propagation: output %.1e, gradient %.1e\n",
                check.step, check.output_error, check.gradient_error);
  }
  std::fflush(stdout);
}

std::string FormatTraining(const MultigridWords& words, const multigrid::Problem& problem,
                           const MultigridSettings& settings,
                           const std::vector<multigrid::EpochResult>& epochs) {
  ordered_json json = Head(words, problem, settings);
  json["train"] = words.train;
  ordered_json rows = ordered_json::array();
  for (const multigrid::EpochResult& epoch : epochs) {
    ordered_json row;
    row["loss"] = std::isfinite(epoch.loss) ? ordered_json(epoch.loss) : ordered_json(nullptr);
    row["top1"] = epoch.top1;
    row["solves"] = epoch.solves;
    row["cycles"] = epoch.cycles;
    row["serial_solves"] = epoch.serial_solves;
    row["fallback"] = epoch.fallback;
    ordered_json checks = ordered_json::array();
    for (const multigrid::CheckedStep& check : epoch.checks) {
      checks.push_back({{"step", check.step},
                        {"output_error", check.output_error},
                        {"gradient_error", check.gradient_error}});
    }
    row["checks"] = std::move(checks);
    rows.push_back(std::move(row));
  }
  json["epochs"] = std::move(rows);
  return json.dump(2) + "\n";
}

}  // namespace ucudnn::command
