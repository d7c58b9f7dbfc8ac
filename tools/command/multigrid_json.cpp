#include "command/multigrid_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "command/multigrid_output.h"

namespace ucudnn::command {
namespace {

using multigrid::StageSolution;
using nlohmann::ordered_json;

ordered_json NumberOrNull(double number) {
  return std::isfinite(number) ? ordered_json(number) : ordered_json(nullptr);
}

ordered_json NumberOrNull(const std::optional<double>& number) {
  return number ? NumberOrNull(*number) : ordered_json(nullptr);
}

ordered_json NumbersOrNulls(const std::vector<double>& numbers) {
  ordered_json array = ordered_json::array();
  for (const double number : numbers) array.push_back(NumberOrNull(number));
  return array;
}

// What a document begins with: the network, where it is solved, and what the options said.
ordered_json HeadOf(const SolveSpec& spec, const ProblemFacts& facts,
                    const MultigridSettings& all) {
  ordered_json head;
  head["format"] = "ucudnn-multigrid";
  head["version"] = 1;
  head["ucudnn"] = kVersion;
  head["network"] = facts.network;
  head["layers"] = facts.layers;
  head["parameters"] = facts.parameters;
  head["machine"] = all.MachineText();
  head["cpu_times"] = all.RunsOnCpu();
  head["devices"] = all.ranks->devices();
  if (all.device) {
    const auto& chosen = all.device->solvers(all.ranks->first_here()).chosen();
    head["way"] = multigrid::NameOf(chosen.way);
    head["launch"] = multigrid::NameOf(chosen.launch);
    for (const auto& measured : chosen.measured) {
      head["ways"][multigrid::NameOf(measured.way)] = measured.seconds;
    }
  } else {
    head["threads"] = all.network.lanes;
  }
  for (const SpecOption& option : SpecOptions()) {
    if (option.member != nullptr) head[option.member] = option.document(spec, all.network);
  }
  head["state_bytes"] =
      facts.state_bytes ? ordered_json(*facts.state_bytes) : ordered_json(nullptr);
  return head;
}

ordered_json StageJson(const StageFacts& facts) {
  ordered_json stage;
  stage["steps"] = facts.steps;
  stage["shape"] = facts.shape;
  stage["step"] = facts.h;
  stage["levels"] = facts.levels;
  stage["coarsening"] = facts.coarsening;
  return stage;
}

// Times to a tenth of a microsecond.
double WithTenthsOfMicroseconds(double ms) { return std::round(ms * 1e4) / 1e4; }

ordered_json TimelineJson(const multigrid::CycleTimeline& timeline) {
  ordered_json json;
  json["cycle"] = timeline.cycle;
  json["lanes"] = timeline.lanes;
  json["ms"] = WithTenthsOfMicroseconds(timeline.Milliseconds());
  json["concurrency"] = timeline.MeanConcurrency();
  ordered_json spans = ordered_json::array();
  for (const multigrid::StepSpan& span : timeline.spans) {
    spans.push_back({{"lane", span.lane},
                     {"level", span.level},
                     {"first", span.first},
                     {"steps", span.steps},
                     {"begin_ms", WithTenthsOfMicroseconds(span.begin_ms)},
                     {"end_ms", WithTenthsOfMicroseconds(span.end_ms)}});
  }
  json["spans"] = std::move(spans);
  return json;
}

// Members that are of one solve: those that the longest stage has for readers that look at one, and
// all stages.
void AddSolve(const SolvedNetwork& solved, ordered_json& json) {
  const StageSolution& longest = solved.LongestStage();
  json["residuals"] = NumbersOrNulls(longest.solution.residuals);
  json["cycles"] = longest.solution.cycles;
  json["status"] = multigrid::NameOf(longest.solution.outcome);
  json["output_error"] = NumberOrNull(solved.output_error);
  json["seconds"] = solved.seconds;
  json["serial_seconds"] = NumberOrNull(solved.serial_seconds);
  ordered_json stages = ordered_json::array();
  for (size_t at = 0; at < solved.stages.size(); ++at) {
    const multigrid::Solution& solution = solved.stages[at].solution;
    ordered_json stage = StageJson(solved.facts.stages[at]);
    stage["residuals"] = NumbersOrNulls(solution.residuals);
    stage["cycles"] = solution.cycles;
    stage["status"] = multigrid::NameOf(solution.outcome);
    stage["fallback"] = solution.fallback;
    stage["largest_state"] = NumberOrNull(solution.largest_state);
    const auto& timeline = solved.stages[at].timeline;
    if (timeline && timeline->cycle > 0) stage["timeline"] = TimelineJson(*timeline);
    stages.push_back(std::move(stage));
  }
  json["stages"] = std::move(stages);
}

ordered_json EpochJson(const TrainedEpoch& trained) {
  const multigrid::EpochResult& epoch = trained.result;
  ordered_json row;
  row["loss"] = NumberOrNull(epoch.loss);
  row["top1"] = epoch.top1;
  row["solves"] = epoch.solves;
  row["cycles"] = epoch.cycles;
  row["serial_solves"] = epoch.serial_solves;
  row["fallback"] = epoch.fallback;
  row["far_solves"] = epoch.far_solves;
  row["residual"] = NumberOrNull(epoch.forward_residual.value());
  row["backward_residual"] = NumberOrNull(epoch.backward_residual.value());
  row["seconds"] = trained.seconds;
  ordered_json checks = ordered_json::array();
  for (const multigrid::CheckedStep& check : epoch.checks) {
    checks.push_back({{"step", check.step},
                      {"output_error", NumberOrNull(check.output_error)},
                      {"gradient_error", NumberOrNull(check.gradient_error)}});
  }
  row["checks"] = std::move(checks);
  return row;
}

}  // namespace

std::string FormatSolves(const SolveSpec& spec, const std::vector<SolvedNetwork>& solves) {
  const SolvedNetwork& deepest = *std::max_element(
      solves.begin(), solves.end(),
      [](const auto& a, const auto& b) { return a.facts.layers < b.facts.layers; });
  ordered_json json = HeadOf(spec, deepest.facts, deepest.settings);
  AddSolve(deepest, json);
  if (!spec.depths.empty()) {
    ordered_json depths = ordered_json::array();
    for (const SolvedNetwork& solved : solves) {
      ordered_json depth;
      depth["layers"] = solved.facts.layers;
      depth["parameters"] = solved.facts.parameters;
      AddSolve(solved, depth);
      depths.push_back(std::move(depth));
    }
    json["depths"] = std::move(depths);
  }
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string FormatTraining(const SolveSpec& spec, const TrainingFacts& facts,
                           const std::vector<TrainedEpoch>& epochs) {
  const multigrid::TrainingSettings& settings = spec.training;
  ordered_json json = HeadOf(spec, facts.problem, facts.settings);
  json["most_backward_cycles"] = facts.settings.network.backward.cycles;
  ordered_json stages = ordered_json::array();
  for (const StageFacts& stage : facts.problem.stages) stages.push_back(StageJson(stage));
  json["stages"] = std::move(stages);
  ordered_json training;
  training["data"] = spec.train;
  training["replicas"] = spec.replicas;
  training["examples"] = facts.examples;
  training["test_examples"] = facts.test_examples;
  training["rate"] = settings.learning_rate;
  training["momentum"] = settings.momentum;
  training["seed"] = settings.seed;
  training["repeats"] = settings.repeats;
  ordered_json rows = ordered_json::array();
  for (const TrainedEpoch& epoch : epochs) rows.push_back(EpochJson(epoch));
  training["epochs"] = std::move(rows);
  json["training"] = std::move(training);
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ucudnn::command
