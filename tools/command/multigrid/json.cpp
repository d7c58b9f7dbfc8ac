#include <algorithm>
#include <cmath>

#include "base/version.h"
#include "command/multigrid/output.h"
#include "command/multigrid/report.h"

namespace ucudnn::command {
namespace {

// Returns a document without results: the network, the machine that solves it, and the options.
MultigridReport HeadOf(const SolveSpec& spec, const ProblemFacts& facts,
                       const MultigridSettings& all) {
  MultigridReport report;
  report.ucudnn = kVersion;
  report.network = facts.network;
  report.layers = facts.layers;
  report.parameters = facts.parameters;
  report.machine = all.MachineText();
  report.has_cpu_times = all.RunsOnCpu();
  report.devices = all.ranks->devices();
  report.state_bytes = facts.state_bytes;
  DescribeSpec(spec, all.network, report);
  if (!all.device) {
    report.threads = all.network.lanes;
    return report;
  }
  const auto& chosen = all.device->solvers(all.ranks->first_here()).chosen();
  report.way = multigrid::NameOf(chosen.way);
  report.launch = multigrid::NameOf(chosen.launch);
  for (const auto& measured : chosen.measured) {
    report.ways.emplace_back(multigrid::NameOf(measured.way), measured.seconds);
  }
  return report;
}

// Rounds a time in milliseconds to a tenth of a microsecond.
double WithTenthsOfMicroseconds(double ms) { return std::round(ms * 1e4) / 1e4; }

ReportedTimeline TimelineOf(const multigrid::CycleTimeline& timeline) {
  ReportedTimeline told{timeline.cycle,
                        timeline.lanes,
                        WithTenthsOfMicroseconds(timeline.Milliseconds()),
                        timeline.MeanConcurrency(),
                        {}};
  for (const multigrid::StepSpan& span : timeline.spans) {
    told.spans.push_back({span.lane, span.level, span.first, span.steps,
                          WithTenthsOfMicroseconds(span.begin_ms),
                          WithTenthsOfMicroseconds(span.end_ms)});
  }
  return told;
}

ReportedSolve SolveOf(const SolvedNetwork& solved) {
  ReportedSolve solve;
  solve.layers = solved.facts.layers;
  solve.parameters = solved.facts.parameters;
  solve.output_error = solved.output_error;
  solve.seconds = solved.seconds;
  solve.serial_seconds = solved.serial_seconds;
  for (size_t at = 0; at < solved.stages.size(); ++at) {
    const multigrid::Solution& solution = solved.stages[at].solution;
    ReportedStage& stage = solve.stages.emplace_back(ReportedStage{solved.facts.stages[at]});
    stage.residuals.assign(solution.residuals.begin(), solution.residuals.end());
    stage.cycles = solution.cycles;
    stage.status = multigrid::NameOf(solution.outcome);
    stage.fallback = solution.fallback;
    stage.largest_state = solution.largest_state;
    const auto& timeline = solved.stages[at].timeline;
    if (timeline && timeline->cycle > 0) stage.timeline = TimelineOf(*timeline);
  }
  return solve;
}

ReportedEpoch EpochOf(const TrainedEpoch& trained) {
  const multigrid::EpochResult& result = trained.result;
  ReportedEpoch epoch;
  epoch.loss = result.loss;
  epoch.top1 = result.top1;
  epoch.solves = result.solves;
  epoch.cycles = result.cycles;
  epoch.serial_solves = result.serial_solves;
  epoch.fallback = result.fallback;
  epoch.far_solves = result.far_solves;
  epoch.residual = result.forward_residual.value();
  epoch.backward_residual = result.backward_residual.value();
  epoch.seconds = trained.seconds;
  for (const multigrid::CheckedStep& check : result.checks) {
    epoch.checks.push_back({check.step, check.output_error, check.gradient_error});
  }
  return epoch;
}

}  // namespace

std::string FormatSolves(const SolveSpec& spec, const std::vector<SolvedNetwork>& solves) {
  const SolvedNetwork& deepest = *std::max_element(
      solves.begin(), solves.end(),
      [](const auto& a, const auto& b) { return a.facts.layers < b.facts.layers; });
  MultigridReport report = HeadOf(spec, deepest.facts, deepest.settings);
  report.has_depths = !spec.depths.empty();
  for (const SolvedNetwork& solved : solves) report.solves.push_back(SolveOf(solved));
  return json::Write(report, 0) + "\n";
}

std::string FormatTraining(const SolveSpec& spec, const TrainingFacts& facts,
                           const std::vector<TrainedEpoch>& epochs) {
  const multigrid::TrainingSettings& settings = spec.training;
  MultigridReport report = HeadOf(spec, facts.problem, facts.settings);
  ReportedTraining& training = report.training.emplace();
  training.most_backward_cycles = facts.settings.network.backward.cycles;
  for (const StageFacts& stage : facts.problem.stages) training.stages.push_back({stage});
  training.data = spec.train;
  training.replicas = spec.replicas;
  training.examples = facts.examples;
  training.test_examples = facts.test_examples;
  training.rate = settings.learning_rate;
  training.momentum = settings.momentum;
  training.seed = settings.seed;
  training.repeats = settings.repeats;
  for (const TrainedEpoch& epoch : epochs) training.epochs.push_back(EpochOf(epoch));
  return json::Write(report, 0) + "\n";
}

}  // namespace ucudnn::command
