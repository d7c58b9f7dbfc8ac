// `ucudnn multigrid`: solves a residual network over all its layers at once, or trains one by such
// solves.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "command/command.h"
#include "command/multigrid/analysis.h"
#include "command/multigrid/output.h"
#include "command/multigrid/settings.h"
#include "command/multigrid/solve.h"
#include "command/multigrid/solve_spec.h"
#include "command/multigrid/training.h"
#include "command/numbers.h"

namespace ucudnn::command {
namespace {

using multigrid::Problem;

// Fails if options are given that would have no effect.
Status CheckUse(const SolveSpec& spec) {
  const bool is_chain = spec.net == "chain";
  const bool is_partitioned = spec.network().method == multigrid::Method::kPartitioned;
  const struct {
    bool applies;
    std::vector<const char*> options;
    std::string why;
  } misuses[] = {
      {!spec.trains() && !spec.analyse,
       {"--epochs", "--examples", "--rate", "--momentum", "--backward-cycles", "--repeat",
        "--data-parallel"},
       "says how to train; expected --train FOLDER with it"},
      {!spec.analyse, {"--machine"}, "says where to model solves; expected --analyse"},
      {spec.analyse, {"--method"}, "says how to solve; --analyse models all methods"},
      {is_partitioned,
       {"--cycles", "--tolerance", "--norm", "--relaxation", "--coarse", "--start",
        "--skip-first-down", "--backward-cycles"},
       "is of multigrid; --method partitioned runs one layer after the other"},
      {is_partitioned, {"--timeline"}, "shows a cycle; --method partitioned has none"},
      {!is_chain,
       {"--activation"},
       "is of a chain; " + Quoted(spec.net) + " has its own activations"},
      {is_chain,
       {"--layers", "--depths", "--frozen-norms", "--train"},
       "a chain is what --weights holds, and nothing else"},
      {is_chain, {"--seed"}, "nothing of a chain is drawn; --weights holds all of it"},
      {spec.trains() || spec.network().levels == 1,
       {"--timeline"},
       "shows a cycle of one solve; expected neither --train nor --levels 1"},
      {*spec.on_device, {"--threads"}, "is of the host; expected --streams of a device"},
      {!*spec.on_device, {"--host"}, "is cudnn on the CPU stand-in, and not of --backend cpu64"},
      {!*spec.on_device,
       {"--way", "--launch", "--precision", "--streams", "--workspace-limit"},
       "is of a device; expected --backend cudnn with it"},
      {spec.device.way == multigrid::Way::kGrouped,
       {"--streams"},
       "is of --way streams; grouped runs all blocks in one call"},
      {!spec.depths.empty(),
       {"--layers", "--weights", "--train"},
       "--depths solves networks of several depths, with drawn weights"}};
  for (const auto& misuse : misuses) {
    if (misuse.applies) UCUDNN_RETURN_IF_ERROR(spec.Refuse(misuse.options, misuse.why));
  }
  return Status::Ok();
}

// Warns of states that are not finite or far from those of serial propagation.
void TellDoubts(const CLI::App& app, const SolvedNetwork& solved) {
  for (size_t at = 0; at < solved.stages.size(); ++at) {
    const multigrid::Solution& solution = solved.stages[at].solution;
    const std::string network =
        Quoted(solved.facts.network) +
        (solved.stages.size() > 1 ? ", stage " + std::to_string(at + 1) : std::string()) + ", " +
        Grouped(solved.stages[at].steps) + " steps: ";
    if (!std::isfinite(solution.largest_state)) {
      Tell(app, network +
                    "the states of serial propagation are not finite; a smaller h may help "
                    "(--time, --step)");
    } else if (IsFarAway(solution, solved.settings.network.forward.scale)) {
      Tell(app, network +
                    "the states are far from those of serial propagation; more --cycles, a "
                    "--tolerance or a smaller h may help (--time, --step)");
    }
  }
}

Drawn DrawnBy(const MultigridRanks& ranks) {
  return ranks.are_processes() ? Drawn::kImage : Drawn::kAll;
}

// Solves the network, or with --depths a network of each depth.
Result<std::vector<SolvedNetwork>> SolveAll(const SolveSpec& spec,
                                            const std::shared_ptr<MultigridRanks>& ranks) {
  std::vector<SolveSpec> each(std::max<size_t>(spec.depths.size(), 1), spec);
  for (size_t at = 0; at < spec.depths.size(); ++at) each[at].layers = spec.depths[at];
  std::vector<SolvedNetwork> solves;
  for (const SolveSpec& one : each) {
    UCUDNN_ASSIGN_OR_RETURN(Problem problem, ReadProblem(one, DrawnBy(*ranks)));
    UCUDNN_ASSIGN_OR_RETURN(const MultigridSettings settings, SettingsOf(one, problem, ranks));
    UCUDNN_ASSIGN_OR_RETURN(SolvedNetwork solved, SolveOnce(problem, settings, one.checks()));
    solves.push_back(std::move(solved));
  }
  return solves;
}

int Solve(const CLI::App& app, const SolveSpec& spec,
          const std::shared_ptr<MultigridRanks>& ranks) {
  const Result<std::vector<SolvedNetwork>> solves = SolveAll(spec, ranks);
  if (!solves.ok()) {
    return Refuse(app, solves.message(), ranks->others_failed() ? kFailed : kBadUsage);
  }
  if (!ranks->speaks()) return 0;
  if (!spec.report.empty()) {
    const int code = WriteOutput(app, FormatSolves(spec, *solves), spec.report);
    if (code != 0) return code;
  }
  if (spec.json) {
    WriteOutput(app, FormatSolves(spec, *solves), "");
  } else if (spec.depths.empty()) {
    PrintSolve(spec, solves->front());
  } else {
    PrintDepths(spec, *solves);
  }
  for (const SolvedNetwork& solved : *solves) TellDoubts(app, solved);
  return 0;
}

Result<int> TellMultigrid(const CLI::App& app, const std::map<std::string, std::string>& texts) {
  UCUDNN_ASSIGN_OR_RETURN(const SolveSpec spec, ReadSpec(app, texts));
  UCUDNN_RETURN_IF_ERROR(CheckUse(spec));
  if (spec.analyse) return AnalyseMultigrid(app, spec);
  UCUDNN_ASSIGN_OR_RETURN(const auto ranks, MultigridRanks::Open(spec));
  if (spec.network().notes_timeline && ranks->all() > 1) {
    return Status::Error(
        "--timeline: shows the threads or streams of one device; expected no other");
  }
  if (!spec.trains()) return Solve(app, spec, ranks);
  UCUDNN_ASSIGN_OR_RETURN(Problem problem, ReadProblem(spec, DrawnBy(*ranks)));
  UCUDNN_ASSIGN_OR_RETURN(const MultigridSettings settings, SettingsOf(spec, problem, ranks));
  return Train(app, spec, problem, settings);
}

}  // namespace

Command AddMultigrid(CLI::App& ucudnn) {
  auto texts = std::make_shared<std::map<std::string, std::string>>();
  CLI::App* app = AddSubcommand(ucudnn, "multigrid", "multigrid NET [OPTIONS]",
                                "solve or train a residual network over all its layers at once");
  AddSpecOptions(*app, *texts);
  return {app, [app, texts](const ProgramWords&) { return TellMultigrid(*app, *texts); }};
}

}  // namespace ucudnn::command
