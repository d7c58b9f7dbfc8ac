#include "planner/multigrid/device/device_solvers.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/device/device_chain.h"
#include "planner/multigrid/device/grouped_system.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {
namespace {

struct WayRow {
  Way way;
  const char* name;
  bool is_grouped;
  bool has_lanes;
  Lanes::Threads threads;
  bool is_recorded;
};

constexpr auto kOneThread = Lanes::Threads::kCallersAlone;
constexpr WayRow kWays[] = {
    {Way::kOneByOne, "one", false, false, kOneThread, false},
    {Way::kStreams, "streams", false, true, kOneThread, false},
    {Way::kThreads, "threads", false, true, Lanes::Threads::kOneEach, false},
    {Way::kGrouped, "grouped", true, false, kOneThread, false},
    {Way::kOneByOneRecorded, "one-recorded", false, false, kOneThread, true},
    {Way::kStreamsRecorded, "streams-recorded", false, true, kOneThread, true},
    {Way::kGroupedRecorded, "grouped-recorded", true, false, kOneThread, true},
};

const WayRow& RowOf(Way way) {
  return *std::find_if(std::begin(kWays), std::end(kWays),
                       [way](const WayRow& row) { return row.way == way; });
}

DeviceStage OnDevice(const StageToSolve& stage, size_t workspace_limit) {
  return {.chain = stage.chain,
          .stage = stage.stage,
          .parameters = stage.parameters,
          .hierarchy = stage.hierarchy,
          .coarse = stage.settings.coarse,
          .h = stage.h,
          .batch = stage.settings.batch,
          .workspace_limit = workspace_limit};
}

class LaneSolver : public DeviceSolver {
 public:
  static Result<std::unique_ptr<DeviceSolver>> Make(const DeviceTarget& target,
                                                    const DeviceStage& stage, const WayRow& way,
                                                    int lanes, Storage storage) {
    const int count = way.has_lanes ? lanes : 1;
    UCUDNN_ASSIGN_OR_RETURN(Lanes made_lanes, Lanes::Start(count, way.threads));
    std::unique_ptr<LaneSolver> solver(
        new LaneSolver(*target.precision, stage.h, stage.hierarchy, std::move(made_lanes)));
    solver->storage_ = storage;
    solver->is_recorded_ = way.is_recorded;
    UCUDNN_ASSIGN_OR_RETURN(solver->chain_, DeviceChain::Make(target, stage, count));
    UCUDNN_ASSIGN_OR_RETURN(solver->first_, solver->chain_->Create());
    UCUDNN_ASSIGN_OR_RETURN(BlockSystem system,
                            BlockSystem::Make(*solver->chain_, stage.hierarchy, solver->lanes_,
                                              storage, solver->first_));
    solver->system_.emplace(std::move(system));
    if (way.is_recorded) UCUDNN_RETURN_IF_ERROR(solver->chain_->RecordCycles());
    return std::unique_ptr<DeviceSolver>(std::move(solver));
  }

  Status LoadWeights() override { return chain_->WeightsChanged(); }

  Result<Solution> Run(const std::vector<double>& first, const SolveOptions& options,
                       std::vector<double>& last) override {
    UCUDNN_RETURN_IF_ERROR(chain_->Upload(first, first_));
    UCUDNN_RETURN_IF_ERROR(system_->SetFirst(first_));
    UCUDNN_ASSIGN_OR_RETURN(Solution solution, multigrid::Solve(*system_, hierarchy_, options));
    UCUDNN_RETURN_IF_ERROR(chain_->Wait());
    UCUDNN_RETURN_IF_ERROR(chain_->Download(system_->last(), last));
    if (trajectory_) trajectory_->Reset();
    return solution;
  }

 protected:
  Result<Solution> RunBackward(const std::vector<double>& last, const SolveOptions& options,
                               std::vector<double>& first, double factor,
                               Parameters& gradient) override {
    if (!adjoints_) UCUDNN_RETURN_IF_ERROR(MakeAdjoint());
    UCUDNN_RETURN_IF_ERROR(adjoint_->Upload(last, last_));
    UCUDNN_RETURN_IF_ERROR(adjoints_->SetFirst(last_));
    UCUDNN_ASSIGN_OR_RETURN(Solution solution, multigrid::Solve(*adjoints_, mirrored_, options));
    adjoint_trajectory_->Reset();
    UCUDNN_RETURN_IF_ERROR(
        adjoint_->AddGradient(*adjoint_trajectory_, lanes_, factor * h_, gradient));
    UCUDNN_RETURN_IF_ERROR(adjoint_->Download(adjoints_->last(), first));
    return solution;
  }

 private:
  LaneSolver(const Precision& precision, double h, const Hierarchy& hierarchy, Lanes lanes)
      : DeviceSolver(precision),
        h_(h),
        hierarchy_(hierarchy),
        mirrored_(hierarchy.Mirrored()),
        lanes_(std::move(lanes)) {}

  Status MakeAdjoint() {
    UCUDNN_ASSIGN_OR_RETURN(adjoint_, DeviceAdjoint::Make(*chain_));
    UCUDNN_RETURN_IF_ERROR(chain_->ForgetCycles());
    if (is_recorded_) UCUDNN_RETURN_IF_ERROR(adjoint_->RecordCycles());
    UCUDNN_ASSIGN_OR_RETURN(last_, adjoint_->Create());
    UCUDNN_ASSIGN_OR_RETURN(BlockSystem made,
                            BlockSystem::Make(*adjoint_, mirrored_, lanes_, storage_, last_));
    UCUDNN_ASSIGN_OR_RETURN(Trajectory states,
                            Trajectory::Make(*system_, hierarchy_, *chain_, lanes_.count()));
    trajectory_.emplace(std::move(states));
    adjoint_->LineariseAt(*trajectory_);
    adjoints_.emplace(std::move(made));
    UCUDNN_ASSIGN_OR_RETURN(Trajectory adjoints,
                            Trajectory::Make(*adjoints_, mirrored_, *adjoint_, lanes_.count()));
    adjoint_trajectory_.emplace(std::move(adjoints));
    return Status::Ok();
  }

  double h_;
  const Hierarchy& hierarchy_;
  Hierarchy mirrored_;  // of the adjoint
  Lanes lanes_;
  Storage storage_ = Storage::kAll;
  bool is_recorded_ = false;
  std::unique_ptr<DeviceChain> chain_;
  std::unique_ptr<DeviceAdjoint> adjoint_;
  State first_ = nullptr;
  State last_ = nullptr;
  std::optional<BlockSystem> system_, adjoints_;
  std::optional<Trajectory> trajectory_, adjoint_trajectory_;
};

class GroupedSolver : public DeviceSolver {
 public:
  static Result<std::unique_ptr<DeviceSolver>> Make(const DeviceTarget& target,
                                                    const DeviceStage& stage, const WayRow& way) {
    std::unique_ptr<GroupedSolver> solver(
        new GroupedSolver(*target.precision, stage.h, stage.hierarchy, way.is_recorded));
    UCUDNN_ASSIGN_OR_RETURN(solver->system_, GroupedSystem::Make(target, stage));
    if (way.is_recorded) UCUDNN_RETURN_IF_ERROR(solver->system_->RecordCycles());
    return std::unique_ptr<DeviceSolver>(std::move(solver));
  }

  Status LoadWeights() override { return system_->WeightsChanged(); }

  Result<Solution> Run(const std::vector<double>& first, const SolveOptions& options,
                       std::vector<double>& last) override {
    UCUDNN_RETURN_IF_ERROR(system_->SetFirst(first));
    UCUDNN_ASSIGN_OR_RETURN(Solution solution, multigrid::Solve(*system_, hierarchy_, options));
    UCUDNN_ASSIGN_OR_RETURN(last, system_->ReadState(hierarchy_.level(0).steps));
    return solution;
  }

 protected:
  Result<Solution> RunBackward(const std::vector<double>& last, const SolveOptions& options,
                               std::vector<double>& first, double factor,
                               Parameters& gradient) override {
    if (!adjoints_) {
      UCUDNN_ASSIGN_OR_RETURN(adjoints_, GroupedSystem::MakeAdjoint(*system_));
      UCUDNN_RETURN_IF_ERROR(system_->ForgetCycles());
      if (is_recorded_) UCUDNN_RETURN_IF_ERROR(adjoints_->RecordCycles());
    }
    UCUDNN_RETURN_IF_ERROR(adjoints_->SetFirst(last));
    UCUDNN_ASSIGN_OR_RETURN(Solution solution, multigrid::Solve(*adjoints_, hierarchy_, options));
    UCUDNN_RETURN_IF_ERROR(adjoints_->AddGradient(factor * h_, gradient));
    UCUDNN_ASSIGN_OR_RETURN(first, adjoints_->ReadState(0));
    return solution;
  }

 private:
  GroupedSolver(const Precision& precision, double h, const Hierarchy& hierarchy, bool is_recorded)
      : DeviceSolver(precision), h_(h), hierarchy_(hierarchy), is_recorded_(is_recorded) {}

  double h_;
  const Hierarchy& hierarchy_;
  bool is_recorded_;
  std::unique_ptr<GroupedSystem> system_, adjoints_;
};

// Seconds of one cycle, behind as many as it takes to make everything ready.
Result<double> TimeOf(DeviceSolver& solver, const StageToSolve& stage) {
  SolveOptions options(stage.settings.forward);
  options.tolerance.reset();
  options.cycles = 1;
  options.measures_start = options.measures_cycles = false;
  options.watch = nullptr;
  const std::vector<double> first(
      static_cast<size_t>(stage.stage.shape.Features() * stage.settings.batch), 1.0);
  std::vector<double> last;
  double seconds = 0;
  constexpr int kRuns = 3;  // a graph is recorded in the second
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    UCUDNN_RETURN_IF_ERROR(solver.Run(first, options, last).status());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return seconds;
}

// A power of two that makes the largest of `numbers` about 1.
double ScaleOf(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double number : numbers) largest = std::max(largest, std::abs(number));
  if (largest == 0 || !std::isfinite(largest)) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);
  return std::ldexp(1.0, -exponent);
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

Result<Solution> DeviceSolver::Solve(const std::vector<double>& first, const SolveOptions& options,
                                     std::vector<double>& last) {
  UCUDNN_RETURN_IF_ERROR(LoadWeights());
  return Run(first, options, last);
}

Result<Solution> DeviceSolver::SolveBackward(const std::vector<double>& last,
                                             const SolveOptions& options,
                                             std::vector<double>& first, Parameters& gradient) {
  if (!precision_.has_few_exponents) return RunBackward(last, options, first, 1, gradient);
  const double scale = ScaleOf(last);
  std::vector<double> scaled = last;
  for (double& number : scaled) number *= scale;
  SolveOptions of_scaled = options;
  const bool is_absolute = options.scale == ResidualScale::kAbsolute;
  if (is_absolute && of_scaled.tolerance) *of_scaled.tolerance *= scale;
  UCUDNN_ASSIGN_OR_RETURN(Solution solution,
                          RunBackward(scaled, of_scaled, first, 1 / scale, gradient));
  for (double& number : first) number /= scale;
  solution.largest_state /= scale;
  for (double& residual : solution.residuals) {
    if (is_absolute) residual /= scale;
  }
  return solution;
}

Result<std::unique_ptr<DeviceSolver>> DeviceSolvers::MakeOf(const StageToSolve& stage,
                                                            Way way) const {
  const WayRow& row = RowOf(way);
  const DeviceStage on_device = OnDevice(stage, workspace_limit_);
  if (row.is_grouped) return GroupedSolver::Make(target_, on_device, row);
  return LaneSolver::Make(target_, on_device, row, lanes_, stage.settings.storage);
}

Result<std::unique_ptr<StageSolver>> DeviceSolvers::Make(const StageToSolve& stage) {
  std::optional<Way> fastest = way_;
  double fastest_seconds = std::numeric_limits<double>::infinity();
  Status refusal;
  measured_.clear();
  for (const Way way : way_ ? std::vector<Way>() : AllWays()) {
    // One at a time: together they may not fit the device.
    Result<std::unique_ptr<DeviceSolver>> solver = MakeOf(stage, way);
    const Result<double> seconds =
        solver.ok() ? TimeOf(**solver, stage) : Result<double>(solver.status());
    if (!seconds.ok()) {
      refusal = seconds.status();
      continue;
    }
    measured_.push_back({way, *seconds});
    if (*seconds >= fastest_seconds) continue;
    fastest = way;
    fastest_seconds = *seconds;
  }
  if (!fastest) return refusal;
  chosen_ = *fastest;
  UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<DeviceSolver> solver, MakeOf(stage, *fastest));
  return std::unique_ptr<StageSolver>(std::move(solver));
}

}  // namespace ucudnn::multigrid
