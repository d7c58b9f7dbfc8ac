// How long a network takes on a machine, solved by multigrid and by what that is compared with.
// Every time is modelled, never measured. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "planner/machine/machine.h"
#include "planner/multigrid/analysis/cluster.h"
#include "planner/multigrid/analysis/level_costs.h"
#include "planner/multigrid/analysis/solve_tasks.h"

namespace ucudnn::multigrid {

// Of one mini-batch: a forward pass, or a step of training, which ends with the weights' update.
enum class Workload { kInference, kTraining };

struct ModelledRun {
  double ms = 0;
  // The mean over the devices of the share of the time in which a kernel runs or is launched. In
  // the rest they wait for states of others.
  double computing_share = 0;
  double message_path_ms = 0;  // of ms, in messages of the critical path
  int messages = 0;
  int64_t memory_bytes = 0;  // of the device that needs most: weights, states; no workspace

  bool Fits(const planner::Device& device) const { return memory_bytes <= device.memory_bytes; }
};

// What is multigrid about a solve; the same for all stages.
struct MultigridSetting {
  std::vector<int> coarsening = {8};
  int levels = 0;  // as Hierarchy::Make has it
  CoarseOperator coarse = CoarseOperator::kInject;
  SolvePlan solve;
  Launching launching = Launching::kEach;

  // Whether the same equations are solved in the same steps, wherever that runs.
  bool IsSameSolve(const MultigridSetting& other) const {
    return coarsening == other.coarsening && levels == other.levels && coarse == other.coarse &&
           solve.c_sweeps == other.solve.c_sweeps && solve.start == other.solve.start;
  }
};

// All outlive the model. Errors are the simulator's.
class NetworkModel {
 public:
  NetworkModel(const NetworkLayers& network, const LayerTimes& times,
               const planner::Machine& machine)
      : network_(network), times_(times), machine_(machine) {}

  // Layer after layer on one device.
  Result<ModelledRun> Serial(Workload workload, Launching launching) const;
  // Layer after layer, with contiguous runs of layers on each device. As frameworks do it, a
  // layer's gradients are computed before the layer in front of it goes on.
  Result<ModelledRun> Partitioned(Workload workload, int devices) const;

  const NetworkLayers& network() const { return network_; }
  const LayerTimes& times() const { return times_; }
  const planner::Machine& machine() const { return machine_; }

  // Of `layers` one after the other; the update is of all at once.
  RunCost InRow(const std::vector<int>& layers, LayerPass pass) const;
  // Numbers that a device keeps for these layers: weights, in training with gradient and momentum,
  // and what the backward pass reads.
  int64_t KeptBytes(const std::vector<int>& layers, Workload workload) const;

 private:
  const NetworkLayers& network_;
  const LayerTimes& times_;
  const planner::Machine& machine_;
};

// A network with the levels of one setting, prepared for any number of devices.
class MultigridModel {
 public:
  // `model` outlives it. An error where no stage has layers enough for two levels.
  static Result<MultigridModel> Make(const NetworkModel& model, const MultigridSetting& setting);

  // Blocks of the longest stage: so many devices can have work.
  int MostDevices() const;
  // `plan` replaces the setting's, but for its relaxation. REQUIRES: devices <= MostDevices().
  Result<ModelledRun> Run(Workload workload, int devices, const SolvePlan& plan,
                          Launching launching) const;
  // No schedule of one cycle or more takes less: neither on the longest chain of steps that wait
  // for each other, nor by the devices' work.
  double LeastMs(Workload workload, int devices, int cycles) const;

  const Hierarchy& LongestHierarchy() const;
  const MultigridSetting& setting() const { return setting_; }

 private:
  struct StageLevels {
    StageLevels(Hierarchy made, const NetworkModel& model, const std::vector<int>& kinds,
                CoarseOperator coarse);
    Hierarchy hierarchy;
    LevelCosts forward;
    LevelCosts adjoint;
  };
  class Builder;

  MultigridModel(const NetworkModel& model, const MultigridSetting& setting)
      : model_(&model), setting_(setting) {}

  const NetworkModel* model_;
  MultigridSetting setting_;
  // By section; null for what runs serially.
  std::vector<std::unique_ptr<StageLevels>> stages_;
};

}  // namespace ucudnn::multigrid
