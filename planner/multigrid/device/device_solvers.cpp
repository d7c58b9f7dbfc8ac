#include "planner/multigrid/device/device_solvers.h"

#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/multigrid/block_system.h"
#include "planner/multigrid/device/device_chain.h"
#include "planner/multigrid/device/device_weights.h"
#include "planner/multigrid/device/grouped_system.h"
#include "planner/multigrid/lanes.h"

namespace ucudnn::multigrid {
namespace {

constexpr Way kWays[] = {Way::kOneByOne, Way::kStreams, Way::kThreads, Way::kGrouped};

class LaneSolver : public StageSolver {
 public:
  static Result<std::unique_ptr<StageSolver>> Make(const DeviceTarget& target,
                                                   const StageToSolve& stage, Way way, int lanes,
                                                   size_t workspace_limit) {
    const NetworkSettings& settings = stage.settings;
    const int count = way == Way::kOneByOne ? 1 : lanes;
    UCUDNN_ASSIGN_OR_RETURN(
        Lanes made_lanes,
        Lanes::Start(count, way == Way::kThreads ? Lanes::Threads::kOneEach
                                                 : Lanes::Threads::kCallersAlone));
    std::unique_ptr<LaneSolver> solver(new LaneSolver(stage.hierarchy, std::move(made_lanes)));
    std::vector<int> order(stage.stage.steps.size());
    std::iota(order.begin(), order.end(), 0);
    UCUDNN_ASSIGN_OR_RETURN(solver->weights_, DeviceWeights::Make(target, stage.chain, stage.stage,
                                                                  stage.parameters, order));
    UCUDNN_ASSIGN_OR_RETURN(
        solver->chain_,
        DeviceChain::Make(target, *solver->weights_, stage.hierarchy, settings.coarse, stage.h,
                          settings.batch, count, workspace_limit));
    UCUDNN_ASSIGN_OR_RETURN(solver->first_, solver->chain_->Create());
    UCUDNN_ASSIGN_OR_RETURN(BlockSystem system,
                            BlockSystem::Make(*solver->chain_, stage.hierarchy, solver->lanes_,
                                              settings.storage, solver->first_));
    solver->system_.emplace(std::move(system));
    return std::unique_ptr<StageSolver>(std::move(solver));
  }

  Result<Solution> Solve(const std::vector<double>& first, const SolveOptions& options,
                         std::vector<double>& last) override {
    UCUDNN_RETURN_IF_ERROR(chain_->Upload(first, first_));
    UCUDNN_RETURN_IF_ERROR(system_->SetFirst(first_));
    UCUDNN_ASSIGN_OR_RETURN(Solution solution, multigrid::Solve(*system_, hierarchy_, options));
    UCUDNN_RETURN_IF_ERROR(chain_->Wait());
    UCUDNN_RETURN_IF_ERROR(chain_->Download(system_->last(), last));
    return solution;
  }

 private:
  LaneSolver(const Hierarchy& hierarchy, Lanes lanes)
      : hierarchy_(hierarchy), lanes_(std::move(lanes)) {}

  const Hierarchy& hierarchy_;
  Lanes lanes_;
  std::unique_ptr<DeviceWeights> weights_;
  std::unique_ptr<DeviceChain> chain_;
  State first_ = nullptr;
  std::optional<BlockSystem> system_;
};

class GroupedSolver : public StageSolver {
 public:
  static Result<std::unique_ptr<StageSolver>> Make(const DeviceTarget& target,
                                                   const StageToSolve& stage,
                                                   size_t workspace_limit) {
    const NetworkSettings& settings = stage.settings;
    std::unique_ptr<GroupedSolver> solver(new GroupedSolver(stage.hierarchy));
    UCUDNN_ASSIGN_OR_RETURN(
        solver->system_,
        GroupedSystem::Make(target, {stage.chain, stage.stage, stage.parameters, stage.hierarchy,
                                     settings.coarse, stage.h, settings.batch, workspace_limit}));
    return std::unique_ptr<StageSolver>(std::move(solver));
  }

  Result<Solution> Solve(const std::vector<double>& first, const SolveOptions& options,
                         std::vector<double>& last) override {
    UCUDNN_RETURN_IF_ERROR(system_->SetFirst(first));
    UCUDNN_ASSIGN_OR_RETURN(Solution solution, multigrid::Solve(*system_, hierarchy_, options));
    UCUDNN_ASSIGN_OR_RETURN(last, system_->ReadState(hierarchy_.level(0).steps));
    return solution;
  }

 private:
  explicit GroupedSolver(const Hierarchy& hierarchy) : hierarchy_(hierarchy) {}

  const Hierarchy& hierarchy_;
  std::unique_ptr<GroupedSystem> system_;
};

// Seconds of one cycle, behind one that warms up.
Result<double> TimeOf(StageSolver& solver, const StageToSolve& stage) {
  SolveOptions options(stage.settings.forward);
  options.tolerance.reset();
  options.cycles = 1;
  options.measures_start = options.measures_cycles = false;
  const std::vector<double> first(
      static_cast<size_t>(stage.stage.shape.Features() * stage.settings.batch), 1.0);
  std::vector<double> last;
  double seconds = 0;
  for (int run = 0; run < 2; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    UCUDNN_RETURN_IF_ERROR(solver.Solve(first, options, last).status());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return seconds;
}

}  // namespace

const char* NameOf(Way way) {
  switch (way) {
    case Way::kOneByOne:
      return "one";
    case Way::kStreams:
      return "streams";
    case Way::kThreads:
      return "threads";
    case Way::kGrouped:
      return "grouped";
  }
  return "";
}

Result<std::unique_ptr<StageSolver>> DeviceSolvers::MakeOf(const StageToSolve& stage,
                                                           Way way) const {
  if (way == Way::kGrouped) return GroupedSolver::Make(target_, stage, workspace_limit_);
  return LaneSolver::Make(target_, stage, way, lanes_, workspace_limit_);
}

Result<std::unique_ptr<StageSolver>> DeviceSolvers::Make(const StageToSolve& stage) {
  if (way_) {
    chosen_ = *way_;
    return MakeOf(stage, *way_);
  }
  std::optional<Way> fastest;
  double fastest_seconds = std::numeric_limits<double>::infinity();
  Status refusal;
  for (const Way way : kWays) {
    // One at a time: together they may not fit the device.
    Result<std::unique_ptr<StageSolver>> solver = MakeOf(stage, way);
    const Result<double> seconds =
        solver.ok() ? TimeOf(**solver, stage) : Result<double>(solver.status());
    if (!seconds.ok()) {
      refusal = seconds.status();
      continue;
    }
    if (*seconds >= fastest_seconds) continue;
    fastest = way;
    fastest_seconds = *seconds;
  }
  if (!fastest) return refusal;
  chosen_ = *fastest;
  return MakeOf(stage, *fastest);
}

}  // namespace ucudnn::multigrid
