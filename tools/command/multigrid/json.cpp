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
  Json head = {{"format", "ucudnn-multigrid"},
               {"version", 1},
               {"ucudnn", kVersion},
               {"network", facts.network},
               {"layers", facts.layers},
               {"parameters", facts.parameters},
               {"machine", all.MachineText()},
               {"cpu_times", all.RunsOnCpu()},
               {"devices", all.ranks->devices()}};
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
  return {{"steps", facts.steps},
          {"shape", facts.shape},
          {"step", facts.h},
          {"levels", facts.levels},
          {"coarsening", facts.coarsening}};
}

// Rounds times to a tenth of a microsecond.
double WithTenthsOfMicroseconds(double ms) { return std::round(ms * 1e4) / 1e4; }

Json TimelineJson(const multigrid::CycleTimeline& timeline) {
  return {{"cycle", timeline.cycle},
          {"lanes", timeline.lanes},
          {"ms", WithTenthsOfMicroseconds(timeline.Milliseconds())},
          {"concurrency", timeline.MeanConcurrency()},
          {"spans", ListOf(timeline.spans, [](const multigrid::StepSpan& span) {
             return Json{{"lane", span.lane},
                         {"level", span.level},
                         {"first", span.first},
                         {"steps", span.steps},
                         {"begin_ms", WithTenthsOfMicroseconds(span.begin_ms)},
                         {"end_ms", WithTenthsOfMicroseconds(span.end_ms)}};
           })}};
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
  return {{"loss", FiniteOrNull(epoch.loss)},
          {"top1", epoch.top1},
          {"solves", epoch.solves},
          {"cycles", epoch.cycles},
          {"serial_solves", epoch.serial_solves},
          {"fallback", epoch.fallback},
          {"far_solves", epoch.far_solves},
          {"residual", FiniteOrNull(epoch.forward_residual.value())},
          {"backward_residual", FiniteOrNull(epoch.backward_residual.value())},
          {"seconds", trained.seconds},
          {"checks", ListOf(epoch.checks, [](const multigrid::CheckedStep& check) {
             return Json{{"step", check.step},
                         {"output_error", FiniteOrNull(check.output_error)},
                         {"gradient_error", FiniteOrNull(check.gradient_error)}};
           })}};
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
  json["training"] = {{"data", spec.train},
                      {"replicas", spec.replicas},
                      {"examples", facts.examples},
                      {"test_examples", facts.test_examples},
                      {"rate", settings.learning_rate},
                      {"momentum", settings.momentum},
                      {"seed", settings.seed},
                      {"repeats", settings.repeats},
                      {"epochs", ListOf(epochs, EpochJson)}};
  return JsonText(json);
}

}  // namespace ucudnn::command
