#include "command/multigrid/output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "command/numbers.h"
#include "command/text_table.h"

namespace ucudnn::command {
namespace {

using multigrid::Outcome;
using multigrid::Solution;

const TextColumns kEpochColumns = {{"epoch", 5, 0},  {"loss", 9, 2},      {"top-1", 7, 2},
                                   {"cycles", 9, 2}, {"fell back", 9, 2}, {"s", 9, 2}};

// Losses of kWideLoss or more are printed with three digits, because five decimals would not fit
// the column.
constexpr double kWideLoss = 1000;

// Returns a sentence about the outcome of a solve.
std::string VerdictText(const multigrid::SolveOptions& options, const Solution& solution) {
  const std::string cycles = Counted(solution.cycles, "cycle");
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
  if (solution.fallback.empty()) return "serial propagation";
  return "fell back to serial propagation in cycle " + std::to_string(solution.cycles) +
         " of at most " + std::to_string(options.cycles) + ", since " + solution.fallback;
}

// Formats as "4 levels of 4,093, 511, 63 and 7 layers" or "1 level of 4,093 layers".
std::string LevelsText(const std::vector<int64_t>& levels) {
  return Counted(static_cast<int64_t>(levels.size()), "level") + " of " + LayersText(levels) +
         " layers";
}

void PrintNetwork(const SolveSpec& spec, const ProblemFacts& facts) {
  std::printf(
      "%s: %s layers, %s parameters%s\n", facts.network.c_str(), Grouped(facts.layers).c_str(),
      Grouped(facts.parameters).c_str(),
      facts.has_drawn_weights ? (", drawn (seed " + spec.Text("--seed") + ")").c_str() : "");
  for (const StageFacts& stage : facts.stages) {
    std::printf("stage of %s residual steps, states of %s, h = %.4g\n",
                Grouped(stage.steps).c_str(), Joined(stage.shape, "x").c_str(), *stage.step);
  }
}

void PrintMethod(const multigrid::NetworkSettings& settings, const std::string& machine) {
  std::printf(
      "%s%s\n", machine.c_str(),
      settings.batch == 1 ? "" : (", mini-batch of " + std::to_string(settings.batch)).c_str());
  if (settings.method == multigrid::Method::kPartitioned) {
    std::printf("partitioned: one layer after the other\n");
    return;
  }
  if (settings.levels == 1) return;
  std::printf("V-cycle, relaxation %s, coarse operator %s, start %s\n",
              RelaxationText(settings.forward.c_sweeps).c_str(), multigrid::NameOf(settings.coarse),
              StartText(settings.forward.start));
}

// `lane` is the name of one lane: "thread" or "stream".
void PrintTimeline(const multigrid::CycleTimeline& timeline, const char* lane) {
  if (timeline.cycle == 0) return;
  std::printf("in cycle %d, of %.3g ms, %.2f of %s run a layer on average\n", timeline.cycle,
              timeline.Milliseconds(), timeline.MeanConcurrency(),
              Counted(timeline.lanes, lane).c_str());
}

// Prints the first layer of each device: "devices begin at layers 0, 1,023, 2,046 and 3,069".
void PrintPlacement(const multigrid::Placement& placement) {
  for (const multigrid::SectionPlace& place : placement.sections) {
    const multigrid::Partition& partition = place.partition;
    if (partition.ranks() < 2) continue;
    std::vector<int64_t> begins(partition.begins.begin(), partition.begins.end() - 1);
    std::printf("devices begin at layers %s", LayersText(begins).c_str());
    const int levels = place.hierarchy.levels();
    if (partition.Gathers(place.hierarchy)) {
      std::printf("; %d of %d levels are distributed, the others on the first device",
                  partition.distributed, levels);
    }
    std::printf("\n");
  }
}

void PrintStage(const SolvedNetwork& solved, size_t at) {
  const multigrid::SolveOptions& options = solved.settings.network.forward;
  const Solution& solution = solved.stages[at].solution;
  std::printf("\n");
  if (solved.stages.size() > 1) std::printf("stage %zu: ", at + 1);
  std::printf("%s", LevelsText(solved.facts.stages[at].levels).c_str());
  if (solution.residuals.empty()) {
    std::printf(": %s\n", VerdictText(options, solution).c_str());
    return;
  }
  std::printf("; residuals in %s\n", NormText(options));
  const TextColumns columns = {{"cycle", 5, 0}, {"residual", 12, 2}, {"factor", 8, 2}};
  PrintHead(columns);
  double before = NAN;
  size_t cycle = 0;
  for (const double residual : solution.residuals) {
    std::vector<std::string> cells = {std::to_string(cycle++), NumberText("%.3e", residual)};
    const double factor = residual / before;  // not finite after a residual of 0
    if (std::isfinite(factor)) cells.push_back(NumberText("%.3g", factor));
    PrintRow(columns, cells);
    before = residual;
  }
  std::printf("%s\n", VerdictText(options, solution).c_str());
  if (solution.outcome == Outcome::kEarly && options.scale == multigrid::ResidualScale::kAbsolute) {
    std::printf("the residual is %.2g of the largest state (%.3g in L2)\n",
                RelativeResidual(solution, options.scale), solution.largest_state);
  }
  const auto& timeline = solved.stages[at].timeline;
  if (timeline) PrintTimeline(*timeline, solved.settings.device ? "stream" : "thread");
}

// Returns a text that compares a solve's time with the time of serial propagation.
std::string ComparisonText(double seconds, double serial_seconds) {
  if (!(seconds > 0 && serial_seconds > 0)) return "";
  const bool serial_wins = serial_seconds < seconds;
  const double times = serial_wins ? seconds / serial_seconds : serial_seconds / seconds;
  return NumberText(serial_wins ? ": serial is %.3g times as fast here"
                                : ": the solve is %.3g times as fast here",
                    times);
}

void PrintCheck(const SolvedNetwork& solved) {
  std::printf("\n%.3g s", solved.seconds);
  const bool on_cpu = solved.settings.RunsOnCpu();
  if (!solved.output_error) {
    std::printf(on_cpu ? " on the CPU\n" : "\n");
    return;
  }
  std::printf("; serial propagation %.3g s%s%s\n", *solved.serial_seconds,
              ComparisonText(solved.seconds, *solved.serial_seconds).c_str(),
              on_cpu ? " (CPU times)" : "");
  if (std::isfinite(*solved.output_error)) {
    std::printf("the output differs from that of serial propagation by %.2e, relative, in L2\n",
                *solved.output_error);
  } else {
    std::printf("the output of serial propagation is not finite: there is no error to tell\n");
  }
}

// Prints a row of the table that PrintDepths prints: a name, and text(solve) for each solve.
template <typename Text>
void PrintDepthsRow(const std::string& name, const std::vector<SolvedNetwork>& solves,
                    Text&& text) {
  TextColumns columns = {{"", -12, 0}};
  std::vector<std::string> cells = {name};
  for (const SolvedNetwork& solved : solves) {
    cells.push_back(text(solved));
    const auto size = static_cast<int>(cells.back().size());
    columns.push_back({"", 0, size < 12 ? 12 - size : 1});
  }
  while (cells.back().empty()) cells.pop_back();
  PrintRow(columns, cells);
}

void PrintResiduals(const std::vector<SolvedNetwork>& solves) {
  size_t most = 0;
  for (const SolvedNetwork& solved : solves) {
    most = std::max(most, solved.LongestStage().solution.residuals.size());
  }
  for (size_t cycle = 0; cycle < most; ++cycle) {
    PrintDepthsRow("cycle " + std::to_string(cycle), solves, [&](const SolvedNetwork& solved) {
      const std::vector<double>& residuals = solved.LongestStage().solution.residuals;
      return cycle < residuals.size() ? NumberText("%.2e", residuals[cycle]) : std::string();
    });
  }
}

}  // namespace

void PrintSolve(const SolveSpec& spec, const SolvedNetwork& solved) {
  PrintNetwork(spec, solved.facts);
  PrintMethod(solved.settings.network, solved.machine);
  PrintPlacement(solved.placement);
  for (size_t at = 0; at < solved.stages.size(); ++at) PrintStage(solved, at);
  PrintCheck(solved);
}

void PrintDepths(const SolveSpec& spec, const std::vector<SolvedNetwork>& solves) {
  const SolvedNetwork& first = solves.front();
  const multigrid::SolveOptions& options = first.settings.network.forward;
  std::printf("%s at %zu depths, weights drawn (seed %s), states of %s\n",
              first.facts.network.c_str(), solves.size(), spec.Text("--seed").c_str(),
              Joined(first.facts.LongestStage().shape, "x").c_str());
  PrintMethod(first.settings.network, first.machine);
  std::printf("residuals in %s\n\n", NormText(options));
  PrintDepthsRow("steps", solves, [](const SolvedNetwork& solved) {
    return Grouped(solved.facts.LongestStage().steps);
  });
  PrintDepthsRow("h", solves, [](const SolvedNetwork& solved) {
    return NumberText("%.3g", *solved.facts.LongestStage().step);
  });
  PrintDepthsRow("levels", solves, [](const SolvedNetwork& solved) {
    return std::to_string(solved.facts.LongestStage().levels.size());
  });
  PrintResiduals(solves);
  PrintDepthsRow("cycles", solves, [](const SolvedNetwork& solved) {
    return std::to_string(solved.LongestStage().solution.cycles);
  });
  PrintDepthsRow("status", solves, [](const SolvedNetwork& solved) {
    return std::string(multigrid::NameOf(solved.LongestStage().solution.outcome));
  });
  const std::string seconds = first.settings.RunsOnCpu() ? "CPU s" : "s";
  PrintDepthsRow(seconds, solves,
                 [](const SolvedNetwork& solved) { return NumberText("%.3g", solved.seconds); });
  if (first.output_error) {
    PrintDepthsRow("serial " + seconds, solves, [](const SolvedNetwork& solved) {
      return NumberText("%.3g", *solved.serial_seconds);
    });
    PrintDepthsRow("output error", solves, [](const SolvedNetwork& solved) {
      return NumberText("%.2e", *solved.output_error);
    });
  }
}

void PrintTraining(const SolveSpec& spec, const TrainingFacts& facts) {
  const MultigridSettings& settings = facts.settings;
  PrintNetwork(spec, facts.problem);
  PrintMethod(settings.network, settings.MachineText());
  PrintPlacement(facts.placement);
  const StageFacts& longest = facts.problem.LongestStage();
  std::printf("%s; ", LevelsText(longest.levels).c_str());
  const multigrid::SolveOptions& forward = settings.network.forward;
  if (longest.levels.size() == 1) {
    std::printf("serial propagation\n");
  } else if (forward.tolerance) {
    std::printf("solves end at a residual of %.3g, or after %s\n", *forward.tolerance,
                Counted(forward.cycles, "cycle").c_str());
  } else {
    std::printf("solves end after %s forward and %d backward\n",
                Counted(forward.cycles, "cycle").c_str(), settings.network.backward.cycles);
  }
  std::printf(
      "%s images of %s, %s to test; mini-batches of %d%s, learning rate %.3g, momentum %.3g\n",
      Grouped(facts.examples).c_str(), spec.train.c_str(), Grouped(facts.test_examples).c_str(),
      settings.network.batch,
      spec.training.repeats == 1
          ? ""
          : (", " + std::to_string(spec.training.repeats) + " steps each").c_str(),
      spec.training.learning_rate, spec.training.momentum);
  if (spec.replicas > 1) {
    std::printf("each step trains on a mini-batch of each replica, and sums their gradients\n");
  }
  std::printf("\n");
  TextColumns columns = kEpochColumns;
  columns.back().title = settings.RunsOnCpu() ? "CPU s" : "s";
  PrintHead(columns);
  std::fflush(stdout);
}

void PrintEpoch(int number, const TrainedEpoch& trained) {
  const multigrid::EpochResult& epoch = trained.result;
  const char* const loss = epoch.loss < kWideLoss ? "%.5f" : "%.3g";
  PrintRow(kEpochColumns,
           {std::to_string(number), NumberText(loss, epoch.loss),
            NumberText("%.2f%%", 100 * epoch.top1), std::to_string(epoch.cycles),
            std::to_string(epoch.serial_solves), NumberText("%.3g", trained.seconds)});
  for (const multigrid::CheckedStep& check : epoch.checks) {
    std::printf("       step %d against serial propagation: output %.1e, gradient %.1e\n",
                check.step, check.output_error, check.gradient_error);
  }
  std::fflush(stdout);
}

}  // namespace ucudnn::command
