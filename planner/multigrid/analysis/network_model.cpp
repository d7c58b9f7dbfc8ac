#include "planner/multigrid/analysis/network_model.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "planner/multigrid/analysis/balanced_runs.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {
namespace {

constexpr int kMainStream = 0;

Result<ModelledRun> RunOf(const Cluster& cluster, int64_t memory_bytes) {
  UCUDNN_ASSIGN_OR_RETURN(const simulate::Timeline timeline, cluster.Simulate());
  ModelledRun run;
  run.ms = timeline.makespan_ms;
  run.computing_share = cluster.ComputingShare(timeline);
  run.message_path_ms = cluster.MessagePathMs(timeline);
  run.messages = cluster.messages();
  run.memory_bytes = memory_bytes;
  return run;
}

// The layers of all sections, one after the other, each with the bytes of its output.
struct LayerRow {
  std::vector<int> kinds;
  std::vector<double> state_bytes;
};

LayerRow RowOf(const NetworkLayers& network) {
  LayerRow row;
  for (size_t i = 0; i < network.sections.size(); ++i) {
    for (const int kind : network.sections[i].kinds) {
      row.kinds.push_back(kind);
      row.state_bytes.push_back(network.StateBytes(static_cast<int>(i)));
    }
  }
  return row;
}

// Returns pairs of a kind and the number of layers of that kind.
std::vector<std::pair<int, int>> CountKinds(std::vector<int> layers) {
  std::sort(layers.begin(), layers.end());
  std::vector<std::pair<int, int>> counted;
  for (const int kind : layers) {
    if (counted.empty() || counted.back().first != kind) counted.emplace_back(kind, 0);
    ++counted.back().second;
  }
  return counted;
}

RunCost AtOnce(const LayerTimes& times, const std::vector<int>& layers, LayerPass pass) {
  RunCost cost;
  for (const auto& [kind, count] : CountKinds(layers)) {
    cost += times.Cost(pass, {kind, static_cast<double>(count), 1});
  }
  return cost;
}

}  // namespace

RunCost NetworkModel::InRow(const std::vector<int>& layers, LayerPass pass) const {
  if (pass == LayerPass::kUpdate) return AtOnce(times_, layers, pass);
  RunCost cost;
  for (const auto& [kind, count] : CountKinds(layers)) {
    const RunCost one = times_.Cost(pass, {kind});
    cost += {one.ms * count, one.work_ms * count, one.launches * count};
  }
  return cost;
}

int64_t NetworkModel::KeptBytes(const std::vector<int>& layers, Workload workload) const {
  int64_t bytes = 0;
  for (const int number : layers) {
    const LayerKind& kind = network_.kinds[number];
    bytes += workload == Workload::kTraining
                 ? network_.TrainedBytes() * kind.parameters + network_.element_bytes * kind.kept
                 : network_.element_bytes * kind.parameters;
  }
  return bytes;
}

Result<ModelledRun> NetworkModel::Serial(Workload workload, Launching launching) const {
  Cluster cluster(machine_, 1, launching);
  const LayerRow row = RowOf(network_);
  const auto stream = cluster.Stream(0, kMainStream);
  const bool trains = workload == Workload::kTraining;
  RunCost cost = InRow(row.kinds, LayerPass::kForward);
  if (trains) {
    cost += InRow(row.kinds, LayerPass::kAdjoint);
    cost += InRow(row.kinds, LayerPass::kGradient);
    cost += InRow(row.kinds, LayerPass::kUpdate);
  }
  cluster.BeginGraph(0);
  cluster.Run(0, stream, cost, {});
  double states = 0;
  for (const double bytes : row.state_bytes) {
    states = trains ? states + bytes : std::max(states, 2 * bytes);
  }
  return RunOf(cluster, KeptBytes(row.kinds, workload) + static_cast<int64_t>(states));
}

Result<ModelledRun> NetworkModel::Partitioned(Workload workload, int devices) const {
  Cluster cluster(machine_, devices, Launching::kEach);
  const LayerRow row = RowOf(network_);
  std::vector<double> costs;
  for (const int kind : row.kinds) costs.push_back(times_.Cost(LayerPass::kForward, {kind}).ms);
  const std::vector<int> begins = BalancedRuns(costs, devices);
  const bool trains = workload == Workload::kTraining;
  std::vector<std::vector<int>> layers;
  for (int device = 0; device < devices; ++device) {
    layers.emplace_back(row.kinds.begin() + begins[device], row.kinds.begin() + begins[device + 1]);
  }
  // Returns the bytes of the state that `device` sends to the next device.
  const auto boundary_bytes = [&](int device) {
    return row.state_bytes[static_cast<size_t>(begins[device + 1]) - 1];
  };
  TaskList ready;
  int64_t most_bytes = 0;
  const auto run = [&](int device, LayerPass pass) {
    ready = cluster.Run(device, cluster.Stream(device, kMainStream), InRow(layers[device], pass),
                        std::move(ready));
  };
  for (int device = 0; device < devices; ++device) {
    const std::vector<int>& own = layers[device];
    if (device > 0) {
      ready = cluster.Send(device - 1, device, boundary_bytes(device - 1), Port::kOfSender,
                           std::move(ready));
    }
    run(device, LayerPass::kForward);
    const double states = boundary_bytes(device) * (trains ? static_cast<double>(own.size()) : 2);
    most_bytes = std::max(most_bytes, KeptBytes(own, workload) + static_cast<int64_t>(states));
  }
  for (int device = devices - 1; trains && device >= 0; --device) {
    run(device, LayerPass::kAdjoint);
    run(device, LayerPass::kGradient);
    if (device == 0) break;
    const TaskList done = ready;
    ready = cluster.Send(device, device - 1, boundary_bytes(device - 1), Port::kOfSender, done);
  }
  for (int device = 0; trains && device < devices; ++device) {
    cluster.Run(device, cluster.Stream(device, kMainStream),
                InRow(layers[device], LayerPass::kUpdate), {});
  }
  return RunOf(cluster, most_bytes);
}

MultigridModel::StageLevels::StageLevels(Hierarchy made, const NetworkModel& model,
                                         const std::vector<int>& kinds, CoarseOperator coarse)
    : hierarchy(std::move(made)),
      forward(model.times(), LayerPass::kForward, kinds, hierarchy, coarse),
      adjoint(model.times(), LayerPass::kAdjoint, kinds, hierarchy, coarse, &forward) {}

Result<MultigridModel> MultigridModel::Make(const NetworkModel& model,
                                            const MultigridSetting& setting) {
  MultigridModel made(model, setting);
  const NetworkLayers& network = model.network();
  for (const LayerSection& section : network.sections) {
    made.stages_.push_back(nullptr);
    if (!section.is_stage) continue;
    Result<Hierarchy> hierarchy =
        Hierarchy::Make(static_cast<int>(section.kinds.size()), setting.coarsening, setting.levels);
    if (!hierarchy.ok() || hierarchy->levels() == 1) continue;
    made.stages_.back() =
        std::make_unique<StageLevels>(std::move(*hierarchy), model, section.kinds, setting.coarse);
  }
  const int longest = network.LongestStage();
  if (longest < 0 || made.stages_[longest] == nullptr) {
    return Status::Error(Quoted(network.name) + " has no stage of layers enough for two levels");
  }
  return made;
}

// Adds the tasks of one run: the forward passes of all sections and, in training, their backward
// passes.
class MultigridModel::Builder {
 public:
  Builder(const MultigridModel& owner, Workload workload, int devices,
          const MultigridSetting& setting)
      : owner_(owner),
        model_(*owner.model_),
        network_(owner.model_->network()),
        device_(owner.model_->machine().device),
        trains_(workload == Workload::kTraining),
        workload_(workload),
        setting_(setting),
        cluster_(owner.model_->machine(), devices, setting.launching),
        layers_(devices),
        state_bytes_(devices, 0),
        gradients_(devices) {}

  Result<ModelledRun> Build();

 private:
  struct SolvedStage {
    std::vector<std::vector<int>> layers;  // by device
    std::unique_ptr<SolveTasks> forward;
  };

  void GoTo(int device, double bytes);
  void RunHere(const std::vector<int>& layers, LayerPass pass);
  Status Forward(size_t section);
  Status Backward(size_t section);
  Status Solve(const StageLevels& levels, size_t section);
  Status SolveAdjoint(const StageLevels& levels, size_t section);
  // Adds the gradients of layers first to first + layers.size() - 1 of a stage.
  void AddGradients(const StageLevels& levels, int device, int first,
                    const std::vector<int>& layers, const TaskList& after);
  int64_t MemoryBytes() const;

  const MultigridModel& owner_;
  const NetworkModel& model_;
  const NetworkLayers& network_;
  const planner::Device& device_;
  const bool trains_;
  const Workload workload_;
  const MultigridSetting setting_;
  Cluster cluster_;
  // By device: the layers that it has, the bytes of the states that it keeps, and the tasks that
  // compute its gradients.
  std::vector<std::vector<int>> layers_;
  std::vector<double> state_bytes_;
  std::vector<TaskList> gradients_;
  // By section: the device on which the section's forward pass ended and, for a stage, the data
  // that the stage's backward pass needs.
  std::vector<int> places_;
  std::vector<SolvedStage> solved_;
  // The next section reads a state or an adjoint. The device `here_` has it, and the tasks `ready_`
  // write it.
  int here_ = 0;
  TaskList ready_;
};

void MultigridModel::Builder::GoTo(int device, double bytes) {
  ready_ = cluster_.Send(here_, device, bytes, Port::kOfSender, std::move(ready_));
  here_ = device;
}

void MultigridModel::Builder::RunHere(const std::vector<int>& layers, LayerPass pass) {
  cluster_.BeginGraph(here_);
  ready_ = cluster_.Run(here_, cluster_.Stream(here_, kMainStream), model_.InRow(layers, pass),
                        std::move(ready_));
}

Status MultigridModel::Builder::Forward(size_t section) {
  const std::vector<int>& kinds = network_.sections[section].kinds;
  const double bytes = network_.StateBytes(static_cast<int>(section));
  solved_.emplace_back();
  if (const auto& levels = owner_.stages_[section]) {
    GoTo(0, bytes);
    UCUDNN_RETURN_IF_ERROR(Solve(*levels, section));
  } else {
    RunHere(kinds, LayerPass::kForward);
    std::vector<int>& own = layers_[here_];
    own.insert(own.end(), kinds.begin(), kinds.end());
    state_bytes_[here_] += bytes * static_cast<double>(kinds.size());
  }
  places_.push_back(here_);
  return Status::Ok();
}

Status MultigridModel::Builder::Solve(const StageLevels& levels, size_t section) {
  const LayerSection& stage = network_.sections[section];
  const Level& finest = levels.hierarchy.level(0);
  const double bytes = network_.StateBytes(static_cast<int>(section));
  SolvedStage& solved = solved_.back();
  const int devices = std::min(cluster_.devices(), finest.blocks());
  const std::vector<int> begins = BalancedBlocks(levels.forward, device_.launch_us, devices);
  solved.forward = std::make_unique<SolveTasks>(cluster_, device_, levels.forward, setting_, bytes,
                                                BlockRuns{begins});
  UCUDNN_RETURN_IF_ERROR(solved.forward->Add(ready_));
  here_ = devices - 1;
  ready_ = solved.forward->Ready(here_);
  const auto states =
      static_cast<double>(BlockSystem::StatesFor(levels.hierarchy, 0, setting_.storage));
  for (int device = 0; device < devices; ++device) {
    const int blocks = begins[device + 1] - begins[device];
    const auto first = stage.kinds.begin() + int64_t{begins[device]} * finest.coarsening;
    const std::vector<int>& own = solved.layers.emplace_back(
        first,
        device + 1 == devices ? stage.kinds.end() : first + int64_t{blocks} * finest.coarsening);
    layers_[device].insert(layers_[device].end(), own.begin(), own.end());
    state_bytes_[device] += bytes * (trains_ ? 2 : 1) * states * blocks / finest.blocks();
    // With Storage::kCPoints, the gradients need buffers into which states and adjoints are
    // computed again.
    const int64_t again = Trajectory::StatesFor(
        levels.hierarchy, setting_.StreamsFor(blocks, device_), setting_.storage);
    if (trains_) state_bytes_[device] += 2 * bytes * static_cast<double>(again);
  }
  return Status::Ok();
}

void MultigridModel::Builder::AddGradients(const StageLevels& levels, int device, int first,
                                           const std::vector<int>& layers, const TaskList& after) {
  TaskList& gradients = gradients_[device];
  const auto count = static_cast<int>(layers.size());
  const bool groups = setting_.blocks == BlocksAtOnce::kGrouped;
  const bool keeps_f = setting_.storage == Storage::kAll;
  const Level& finest = levels.hierarchy.level(0);
  // If a stream computes states and adjoints again, it gets whole blocks.
  const int unit = keeps_f ? 1 : finest.coarsening;
  const int units = (count + unit - 1) / unit;
  const int streams = setting_.StreamsFor(units, device_);
  for (int stream = 0; stream < streams; ++stream) {
    const int begin = units * stream / streams * unit;
    const int end = std::min(count, units * (stream + 1) / streams * unit);
    const std::vector<int> own(layers.begin() + begin, layers.begin() + end);
    RunCost cost = groups ? AtOnce(model_.times(), own, LayerPass::kGradient)
                          : model_.InRow(own, LayerPass::kGradient);
    if (!keeps_f) {
      cost += levels.forward.FStepsAgain(first + begin, first + end);
      cost += levels.adjoint.FStepsAgain(finest.steps - first - end, finest.steps - first - begin);
    }
    Append(gradients, cluster_.Run(device, cluster_.Stream(device, stream), cost, after));
  }
}

Status MultigridModel::Builder::SolveAdjoint(const StageLevels& levels, size_t section) {
  const SolvedStage& solved = solved_[section];
  const int devices = static_cast<int>(solved.layers.size());
  const BlockRuns runs = {BalancedBlocks(levels.adjoint, device_.launch_us, devices), true};
  SolveTasks adjoint(cluster_, device_, levels.adjoint, setting_,
                     network_.StateBytes(static_cast<int>(section)), runs);
  UCUDNN_RETURN_IF_ERROR(adjoint.Add(ready_));
  int first = 0;
  for (int device = 0; device < devices; ++device) {
    TaskList after = adjoint.Ready(devices - 1 - device);
    Append(after, solved.forward->Ready(device));
    AddGradients(levels, device, first, solved.layers[device], after);
    first += static_cast<int>(solved.layers[device].size());
  }
  here_ = 0;
  ready_ = adjoint.Ready(devices - 1);
  return Status::Ok();
}

Status MultigridModel::Builder::Backward(size_t section) {
  GoTo(places_[section], network_.StateBytes(static_cast<int>(section)));
  if (const auto& levels = owner_.stages_[section]) {
    return SolveAdjoint(*levels, section);
  }
  const std::vector<int>& kinds = network_.sections[section].kinds;
  RunHere(kinds, LayerPass::kAdjoint);
  RunHere(kinds, LayerPass::kGradient);
  Append(gradients_[here_], ready_);
  return Status::Ok();
}

int64_t MultigridModel::Builder::MemoryBytes() const {
  int64_t most = 0;
  for (size_t device = 0; device < layers_.size(); ++device) {
    most = std::max(most, model_.KeptBytes(layers_[device], workload_) +
                              static_cast<int64_t>(state_bytes_[device]));
  }
  return most;
}

Result<ModelledRun> MultigridModel::Builder::Build() {
  const size_t sections = network_.sections.size();
  for (size_t section = 0; section < sections; ++section) {
    UCUDNN_RETURN_IF_ERROR(Forward(section));
  }
  for (size_t section = sections; trains_ && section-- > 0;) {
    UCUDNN_RETURN_IF_ERROR(Backward(section));
  }
  for (int device = 0; trains_ && device < cluster_.devices(); ++device) {
    cluster_.Run(device, cluster_.Stream(device, kMainStream),
                 model_.InRow(layers_[device], LayerPass::kUpdate),
                 cluster_.Join(std::move(gradients_[device])));
  }
  return RunOf(cluster_, MemoryBytes());
}

Result<ModelledRun> MultigridModel::Run(Workload workload, int devices,
                                        const MultigridSetting& setting) const {
  return Builder(*this, workload, devices, setting).Build();
}

namespace {

// Returns lower bounds for one solve: `ms` is the time of the steps for which device 0 waits, and
// `work_ms` the work of all devices.
RunCost LeastOf(const LevelCosts& costs, const MultigridSetting& setting, int cycles) {
  const Hierarchy& hierarchy = costs.hierarchy();
  RunCost least;
  for (int level = 0; level < hierarchy.levels(); ++level) {
    const Level& shape = hierarchy.level(level);
    const RunCost all = costs.InRow(level, 0, shape.steps);
    if (level == hierarchy.coarsest()) {
      // `ms` counts the coarsest level once, not once per cycle. If this level is distributed,
      // device 0 continues as soon as it has solved its own part.
      least.ms += all.ms;
      least.work_ms += cycles * all.work_ms;
      break;
    }
    const int relaxing_cycles = cycles - (setting.skips_first_down ? 1 : 0);
    const int relaxations = relaxing_cycles * (SweepsOf(setting.c_sweeps, level) + 1);
    const double relax_ms = costs.InRow(level, 0, shape.coarsening - 1).ms;
    least.ms += relaxations * costs.InRow(level, 0, shape.coarsening).ms;
    const int last_relaxations = level > 0 ? cycles : setting.storage == Storage::kAll ? 1 : 0;
    least.ms += last_relaxations * relax_ms;
    least.work_ms += relaxations * all.work_ms;
  }
  return least;
}

}  // namespace

double MultigridModel::LeastMs(Workload workload, int devices, int cycles) const {
  RunCost least;
  const NetworkLayers& network = model_->network();
  const bool trains = workload == Workload::kTraining;
  for (size_t i = 0; i < network.sections.size(); ++i) {
    const std::vector<int>& kinds = network.sections[i].kinds;
    if (!stages_[i]) {
      least += model_->InRow(kinds, LayerPass::kForward);
      if (trains) least += model_->InRow(kinds, LayerPass::kAdjoint);
      continue;
    }
    least += LeastOf(stages_[i]->forward, setting_, cycles);
    if (!trains) continue;
    least += LeastOf(stages_[i]->adjoint, setting_, cycles);
    least.work_ms += model_->InRow(kinds, LayerPass::kGradient).work_ms;
  }
  return std::max(least.ms, least.work_ms / devices);
}

}  // namespace ucudnn::multigrid
