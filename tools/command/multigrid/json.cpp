#include "command/multigrid/output.h"

#include <algorithm>
#include <cmath>

#include "base/version.h"
#include "command/json.h"

namespace ucudnn::command {
namespace {

using multigrid::StageSolution;

// Writes the head of a document: the network, where it is solved, and the options.
Json HeadOf(const SolveSpec& spec, const ProblemFacts& facts, const MultigridSettings& all) {
  Json head;
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
  head["state_bytes"] = OrNull(facts.state_bytes);
  return head;
}

Json StageJson(const StageFacts& facts) {
  Json stage;
  stage["steps"] = facts.steps;
  stage["shape"] = facts.shape;
  stage["step"] = facts.h;
  stage["levels"] = facts.levels;
  stage["coarsening"] = facts.coarsening;
  return stage;
}

// Rounds times to a tenth of a microsecond.
double WithTenthsOfMicroseconds(double ms) { return std::round(ms * 1e4) / 1e4; }

Json TimelineJson(const multigrid::CycleTimeline& timeline) {
  Json json;
  json["cycle"] = timeline.cycle;
  json["lanes"] = timeline.lanes;
  json["ms"] = WithTenthsOfMicroseconds(timeline.Milliseconds());
  json["concurrency"] = timeline.MeanConcurrency();
  json["spans"] = ListOf(timeline.spans, [](const multigrid::StepSpan& span) {
    return Json{{"lane", span.lane},
                {"level", span.level},
                {"first", span.first},
                {"steps", span.steps},
                {"begin_ms", WithTenthsOfMicroseconds(span.begin_ms)},
                {"end_ms", WithTenthsOfMicroseconds(span.end_ms)}};
  });
  return json;
}

// Adds the members of one solve: those of the longest stage, for readers that want one stage, and
// all stages.
void AddSolve(const SolvedNetwork& solved, Json& json) {
  const StageSolution& longest = solved.LongestStage();
  json["residuals"] = ListOf(longest.solution.residuals, FiniteOrNull);
  json["cycles"] = longest.solution.cycles;
  json["status"] = multigrid::NameOf(longest.solution.outcome);
  json["output_error"] = FiniteOrNull(solved.output_error);
  json["seconds"] = solved.seconds;
  json["serial_seconds"] = FiniteOrNull(solved.serial_seconds);
  Json stages = Json::array();
  for (size_t at = 0; at < solved.stages.size(); ++at) {
    const multigrid::Solution& solution = solved.stages[at].solution;
    Json stage = StageJson(solved.facts.stages[at]);
    stage["residuals"] = ListOf(solution.residuals, FiniteOrNull);
    stage["cycles"] = solution.cycles;
    stage["status"] = multigrid::NameOf(solution.outcome);
    stage["fallback"] = solution.fallback;
    stage["largest_state"] = FiniteOrNull(solution.largest_state);
    const auto& timeline = solved.stages[at].timeline;
    if (timeline && timeline->cycle > 0) stage["timeline"] = TimelineJson(*timeline);
    stages.push_back(std::move(stage));
  }
  json["stages"] = std::move(stages);
}

Json EpochJson(const TrainedEpoch& trained) {
  const multigrid::EpochResult& epoch = trained.result;
  Json row;
  row["loss"] = FiniteOrNull(epoch.loss);
  row["top1"] = epoch.top1;
  row["solves"] = epoch.solves;
  row["cycles"] = epoch.cycles;
  row["serial_solves"] = epoch.serial_solves;
  row["fallback"] = epoch.fallback;
  row["far_solves"] = epoch.far_solves;
  row["residual"] = FiniteOrNull(epoch.forward_residual.value());
  row["backward_residual"] = FiniteOrNull(epoch.backward_residual.value());
  row["seconds"] = trained.seconds;
  row["checks"] = ListOf(epoch.checks, [](const multigrid::CheckedStep& check) {
    return Json{{"step", check.step},
                {"output_error", FiniteOrNull(check.output_error)},
                {"gradient_error", FiniteOrNull(check.gradient_error)}};
  });
  return row;
}

}  // namespace

std::string FormatSolves(const SolveSpec& spec, const std::vector<SolvedNetwork>& solves) {
  const SolvedNetwork& deepest = *std::max_element(
      solves.begin(), solves.end(),
      [](const auto& a, const auto& b) { return a.facts.layers < b.facts.layers; });
  Json json = HeadOf(spec, deepest.facts, deepest.settings);
  AddSolve(deepest, json);
  if (!spec.depths.empty()) {
    json["depths"] = ListOf(solves, [](const SolvedNetwork& solved) {
      Json depth = {{"layers", solved.facts.layers}, {"parameters", solved.facts.parameters}};
      AddSolve(solved, depth);
      return depth;
    });
  }
  return JsonText(json);
}

std::string FormatTraining(const SolveSpec& spec, const TrainingFacts& facts,
                           const std::vector<TrainedEpoch>& epochs) {
  const multigrid::TrainingSettings& settings = spec.training;
  Json json = HeadOf(spec, facts.problem, facts.settings);
  json["most_backward_cycles"] = facts.settings.network.backward.cycles;
  json["stages"] = ListOf(facts.problem.stages, StageJson);
  Json training;
  training["data"] = spec.train;
  training["replicas"] = spec.replicas;
  training["examples"] = facts.examples;
  training["test_examples"] = facts.test_examples;
  training["rate"] = settings.learning_rate;
  training["momentum"] = settings.momentum;
  training["seed"] = settings.seed;
  training["repeats"] = settings.repeats;
  training["epochs"] = ListOf(epochs, EpochJson);
  json["training"] = std::move(training);
  return JsonText(json);
}

}  // namespace ucudnn::command
