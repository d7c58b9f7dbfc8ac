#include "planner/multigrid/device/device_solvers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/multigrid/analysis/least_ms.h"
#include "planner/multigrid/device/device_layers.h"
#include "planner/multigrid/distributed/stage_solver.h"

namespace ucudnn::multigrid {
namespace {

// Returns the options `of`, changed to a solve of one cycle that measures nothing.
SolveOptions OneCycle(const SolveOptions& of) {
  SolveOptions options(of);
  options.tolerance.reset();
  options.cycles = 1;
  options.start = Start::kBroadcast;
  options.measures_start = options.measures_cycles = false;
  options.watch = nullptr;
  return options;
}

// Returns the seconds of the fastest measured run of one cycle. If the stage trains, a run includes
// an adjoint cycle and a descent.
Result<double> TimeOf(StageSolver& solver, const StageToSolve& stage) {
  const std::vector<double> first(static_cast<size_t>(stage.stage.shape.Features() * stage.batch),
                                  1.0);
  std::vector<double> last(first.size());
  const auto cycle = [&]() -> Status {
    UCUDNN_RETURN_IF_ERROR(
        solver.SolveForward(first.data(), OneCycle(stage.forward), last.data()).status());
    if (!stage.trains) return Status::Ok();
    UCUDNN_RETURN_IF_ERROR(
        solver.SolveBackward(first.data(), OneCycle(stage.backward), last.data()).status());
    return solver.Descend({});
  };
  constexpr int kRuns = 2;
  UCUDNN_RETURN_IF_ERROR(solver.LoadWeights());
  // The first runs do not count, because they create objects at first use and record the graph.
  UCUDNN_RETURN_IF_ERROR(LeastMs(kRuns, cycle).status());
  UCUDNN_ASSIGN_OR_RETURN(const double ms, LeastMs(kRuns, cycle));
  return ms / 1000;
}

}  // namespace

const char* NameOf(Way way) { return way == Way::kStreams ? "streams" : "grouped"; }
const char* NameOf(Launch launch) { return launch == Launch::kEach ? "each" : "graph"; }

Status CheckTimeline(std::optional<Way> way, std::optional<Launch> launch) {
  if (way == Way::kGrouped) {
    return Status::Error("--timeline: shows streams; expected --way streams, and not grouped");
  }
  if (launch != Launch::kGraph) return Status::Ok();
  return Status::Error("--timeline: marks each call; expected --launch each, and not graph");
}

namespace {

// Returns Ok, or an error that says why the stage cannot be solved in this way. All ranks get the
// same result.
Status Serves(Way way, const StageToSolve& stage) {
  if (way == Way::kStreams) return Status::Ok();
  if (stage.storage == Storage::kCPoints) {
    return Status::Error(
        "--storage c-points: --way grouped keeps all states, side by side; streams is expected");
  }
  return stage.notes_timeline ? CheckTimeline(way, std::nullopt) : Status::Ok();
}

}  // namespace

// Chooses how cycles are launched. All ranks of `channel` make the same choice.
Result<Launch> DeviceSolvers::LaunchOf(const StageToSolve& stage, RankChannel* channel) const {
  Status recordable = channel != nullptr ? channel->channel().CanBeCaptured() : Status::Ok();
  if (stage.notes_timeline) recordable = CheckTimeline(std::nullopt, Launch::kGraph);
  if (setting_.launch == Launch::kGraph) UCUDNN_RETURN_IF_ERROR(recordable);
  const bool fits = recordable.ok() && target_.driver->MissingForGraphs() == nullptr;
  return setting_.launch.value_or(fits ? Launch::kGraph : Launch::kEach);
}

Result<std::unique_ptr<StageSolver>> DeviceSolvers::MakeOf(const StageToSolve& stage,
                                                           const Choice& choice,
                                                           const Channels& channels) const {
  UCUDNN_RETURN_IF_ERROR(Serves(choice.way, stage));
  const bool has_lanes = choice.way == Way::kStreams && choice.levels > 1;
  const LaneSetting setting = {.way = choice.way,
                               .lanes = has_lanes ? setting_.lanes : 1,
                               .is_recorded = choice.launch == Launch::kGraph,
                               .workspace_limit = setting_.workspace_limit};
  UCUDNN_ASSIGN_OR_RETURN(auto maker,
                          DeviceMaker(target_, stage, setting, channels.ranks, channels.replicas));
  return StageSolver::Make(stage, std::move(maker));
}

// Measures the ways in which the stage can be solved. All ranks measure the same ways and choose
// the same one. If there are several ranks, a way that fails on one of them is an error, because
// the other ranks wait for that rank.
Result<DeviceSolvers::Choice> DeviceSolvers::Choose(const StageToSolve& stage,
                                                    const Channels& channels) const {
  Choice choice = {.levels = stage.hierarchy.levels()};
  UCUDNN_ASSIGN_OR_RETURN(choice.launch, LaunchOf(stage, channels.ranks.get()));
  if (setting_.way) {
    choice.way = *setting_.way;
    return choice;
  }
  double fastest = std::numeric_limits<double>::infinity();
  Status refusal;
  for (const Way way : kWays) {
    // A hierarchy of one level has no blocks that could be grouped.
    if (choice.levels == 1 && way == Way::kGrouped) continue;
    if (!Serves(way, stage).ok()) continue;
    Choice tried = choice;
    tried.way = way;
    // Only one solver exists at a time, because two might not fit into the device's memory.
    Result<std::unique_ptr<StageSolver>> solver = MakeOf(stage, tried, channels);
    Result<double> own = solver.ok() ? TimeOf(**solver, stage) : Result<double>(solver.status());
    if (!own.ok()) {
      if (channels.ranks || channels.replicas) return own.status();
      refusal = own.status();
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto all,
                            GatherNumbers(stage.peers, stage.partition.ranks(), {&*own, 1}));
    for (const std::vector<double>& of_rank : all) *own = std::max(*own, of_rank.front());
    choice.measured.push_back({way, *own});
    if (*own >= fastest) continue;
    choice.way = way;
    fastest = *own;
  }
  if (choice.measured.empty()) return refusal;
  return choice;
}

Result<std::unique_ptr<StageSolver>> DeviceSolvers::Make(const StageToSolve& stage) {
  Channels channels;
  if (stage.partition.ranks() > 1) {
    UCUDNN_ASSIGN_OR_RETURN(
        channels.ranks,
        RankChannel::Open(target_, stage.peers, stage.partition.ranks(), setting_.transport));
    transport_ = channels.ranks->Text();
  }
  if (stage.replicas != nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(
        channels.replicas,
        RankChannel::Open(target_, *stage.replicas, stage.replicas->size(), setting_.transport));
  }
  UCUDNN_ASSIGN_OR_RETURN(const Choice choice, Choose(stage, channels));
  if (choice.levels >= chosen_.levels) chosen_ = choice;
  return MakeOf(stage, choice, channels);
}

CoarseOperator FittingOperator(double sum_cost) {
  constexpr double kIdle = 2;
  return sum_cost <= kIdle ? CoarseOperator::kSum : CoarseOperator::kInject;
}

CoarseOperator DeviceSolvers::MeasureOperator(const ResidualChain& chain, const Stage& stage,
                                              int batch, int layers) const {
  if (static_cast<int>(stage.steps.size()) < 2 * layers) return CoarseOperator::kInject;
  const Result<double> cost =
      MeasureSumCost(target_, chain, stage, batch, layers, setting_.workspace_limit);
  return cost.ok() ? FittingOperator(*cost) : CoarseOperator::kInject;
}

}  // namespace ucudnn::multigrid
