#include "planner/multigrid/device/device_solvers.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "base/text.h"
#include "planner/multigrid/device/device_costs.h"
#include "planner/multigrid/device/device_layers.h"
#include "planner/multigrid/device/grouped_layers.h"
#include "planner/multigrid/distributed/stage_on_ranks.h"

namespace ucudnn::multigrid {
namespace {

struct WayRow {
  Way way;
  const char* name;
  bool is_grouped;
  bool is_recorded;
};

constexpr WayRow kWays[] = {
    {Way::kStreams, "streams", false, false},
    {Way::kGrouped, "grouped", true, false},
    {Way::kStreamsRecorded, "streams-recorded", false, true},
    {Way::kGroupedRecorded, "grouped-recorded", true, true},
};

const WayRow& RowOf(Way way) {
  return *std::find_if(std::begin(kWays), std::end(kWays),
                       [way](const WayRow& row) { return row.way == way; });
}

// Of one cycle, or of both ways'.
SolveOptions OneCycle(const SolveOptions& of) {
  SolveOptions options(of);
  options.tolerance.reset();
  options.cycles = 1;
  options.start = Start::kBroadcast;
  options.measures_start = options.measures_cycles = false;
  options.watch = nullptr;
  return options;
}

// Seconds of one cycle, of both ways where the stage is trained, behind as many as it takes to make
// everything ready.
Result<double> TimeOf(StageSolver& solver, const StageToSolve& stage) {
  const std::vector<double> first(static_cast<size_t>(stage.stage.shape.Features() * stage.batch),
                                  1.0);
  std::vector<double> last(first.size());
  Parameters gradient;
  if (stage.trains) gradient = ZerosLike(stage.parameters);
  UCUDNN_RETURN_IF_ERROR(solver.LoadWeights());
  double seconds = 0;
  constexpr int kRuns = 3;  // a graph is recorded in the second
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    UCUDNN_RETURN_IF_ERROR(
        solver.SolveForward(first.data(), OneCycle(stage.forward), last.data()).status());
    if (stage.trains) {
      UCUDNN_RETURN_IF_ERROR(
          solver
              .SolveBackward(first.data(), OneCycle(stage.backward), last.data(), gradient, nullptr)
              .status());
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return seconds;
}

}  // namespace

const char* NameOf(Way way) { return RowOf(way).name; }

const std::vector<Way>& AllWays() {
  static const auto* const ways = [] {
    auto* all = new std::vector<Way>();
    for (const WayRow& row : kWays) all->push_back(row.way);
    return all;
  }();
  return *ways;
}

std::string WayNames() {
  std::vector<std::string> names;
  for (const WayRow& row : kWays) names.emplace_back(row.name);
  return Join(names, ", ");
}

bool HasTimeline(Way way) { return !RowOf(way).is_grouped && !RowOf(way).is_recorded; }

namespace {

// Ok, or why ranks with this channel cannot solve a stage so: the same on all of them. None: one
// rank.
Status Serves(Way way, const StageToSolve& stage, RankChannel* channel) {
  const WayRow& row = RowOf(way);
  if (row.is_grouped && stage.storage == Storage::kCPoints) {
    return Status::Error(std::string("--storage c-points: --way ") + row.name +
                         " keeps all states, side by side; streams is expected");
  }
  return row.is_recorded && channel != nullptr ? channel->channel().CanBeCaptured() : Status::Ok();
}

}  // namespace

Result<std::unique_ptr<StageSolver>> DeviceSolvers::MakeOf(
    const StageToSolve& stage, Way way, std::shared_ptr<RankChannel> channel) const {
  UCUDNN_RETURN_IF_ERROR(Serves(way, stage, channel.get()));
  const WayRow& row = RowOf(way);
  std::unique_ptr<StageMaker> maker;
  if (row.is_grouped) {
    UCUDNN_ASSIGN_OR_RETURN(maker, GroupedMaker::Make(target_, stage,
                                                      {.is_recorded = row.is_recorded,
                                                       .workspace_limit = setting_.workspace_limit},
                                                      std::move(channel)));
  } else {
    UCUDNN_ASSIGN_OR_RETURN(
        maker, DeviceMaker::Make(target_, stage,
                                 {.lanes = stage.hierarchy.levels() > 1 ? setting_.lanes : 1,
                                  .is_recorded = row.is_recorded,
                                  .workspace_limit = setting_.workspace_limit},
                                 std::move(channel)));
  }
  UCUDNN_ASSIGN_OR_RETURN(auto made, StageOnRanks::Make(stage, std::move(maker)));
  return std::unique_ptr<StageSolver>(std::move(made));
}

// All ranks measure the same ways and choose alike. What one of several cannot do is an error: the
// others wait for it.
Result<DeviceSolvers::Choice> DeviceSolvers::Choose(const StageToSolve& stage,
                                                    std::shared_ptr<RankChannel> channel) const {
  Choice choice = {.levels = stage.hierarchy.levels()};
  if (setting_.way) {
    choice.way = *setting_.way;
    return choice;
  }
  double fastest = std::numeric_limits<double>::infinity();
  Status refusal;
  for (const Way way : AllWays()) {
    const WayRow& row = RowOf(way);
    if (choice.levels == 1 && row.is_grouped) continue;  // there are no blocks
    if (stage.notes_timeline && !HasTimeline(way)) continue;
    const Status serves = Serves(way, stage, channel.get());
    // One at a time: together they may not fit the device.
    Result<std::unique_ptr<StageSolver>> solver =
        serves.ok() ? MakeOf(stage, way, channel) : Result<std::unique_ptr<StageSolver>>(serves);
    Result<double> own = solver.ok() ? TimeOf(**solver, stage) : Result<double>(solver.status());
    if (!own.ok()) {
      if (serves.ok() && channel) return own.status();
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
  std::shared_ptr<RankChannel> channel;
  if (stage.partition.ranks().count > 1) {
    UCUDNN_ASSIGN_OR_RETURN(
        channel,
        RankChannel::Open(target_, stage.peers, stage.partition.ranks(), setting_.transport));
    transport_ = channel->Text();
  }
  UCUDNN_ASSIGN_OR_RETURN(Choice choice, Choose(stage, channel));
  const Way way = choice.way;
  if (choice.levels >= chosen_.levels) chosen_ = std::move(choice);
  return MakeOf(stage, way, std::move(channel));
}

Result<std::vector<std::vector<double>>> DeviceSolvers::MeasureSteps(const ResidualChain& chain,
                                                                     int batch, bool trains) const {
  return MeasureDeviceSteps(target_, chain, batch, trains, setting_.workspace_limit);
}

Result<MessageCosts> DeviceSolvers::MeasureMessages(Peers& peers, int64_t state_numbers) const {
  return MeasureDeviceMessages(target_, peers, setting_.transport, state_numbers);
}

Result<std::vector<MeasuredBatches::Kind>> DeviceSolvers::MeasureLayers(
    const ResidualChain& chain, const NetworkLayers& network) const {
  return MeasureDeviceLayers(target_, chain, network, setting_.workspace_limit);
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
