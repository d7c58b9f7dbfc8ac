// Models the time that a network takes on a machine, solved by multigrid or propagated serially.
// All runs are simulated, never executed. Thread-compatible.
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

// The work for one mini-batch: a forward pass, or a training step, which ends with an update of the
// weights.
enum class Workload { kInference, kTraining };

struct ModelledRun {
  double ms = 0;
  // The share of time in which a device runs or launches a CUDA kernel, averaged over the devices.
  // In the remaining time devices wait for states of other devices.
  double computing_share = 0;
  double message_path_ms = 0;  // part of `ms` that messages on the critical path take
  int messages = 0;
  // Bytes of weights and states, without workspace, on the device that has most of them.
  int64_t memory_bytes = 0;

  bool Fits(const planner::Device& device) const { return memory_bytes <= device.memory_bytes; }
};

// The constructor's arguments must outlive the model. Serial and Partitioned fail if the simulator
// fails.
class NetworkModel {
 public:
  NetworkModel(const NetworkLayers& network, const LayerTimes& times,
               const planner::Machine& machine)
      : network_(network), times_(times), machine_(machine) {}

  // Models a run on one device, layer after layer.
  Result<ModelledRun> Serial(Workload workload, Launching launching) const;
  // Models a run in which each device has a contiguous part of the layers, and one layer runs after
  // the other. As in common frameworks, a device computes the gradients of its layers before it
  // sends the adjoint to the previous device.
  Result<ModelledRun> Partitioned(Workload workload, int devices) const;

  const NetworkLayers& network() const { return network_; }
  const LayerTimes& times() const { return times_; }
  const planner::Machine& machine() const { return machine_; }

  // Returns the cost of `layers`, one after the other; with kUpdate, of one update of all layers at
  // once.
  RunCost InRow(const std::vector<int>& layers, LayerPass pass) const;
  // Returns the bytes that a device keeps for these layers: the weights and, in training, also the
  // gradients, the momenta and the values that the backward pass reads.
  int64_t KeptBytes(const std::vector<int>& layers, Workload workload) const;

 private:
  const NetworkLayers& network_;
  const LayerTimes& times_;
  const planner::Machine& machine_;
};

// A network with the levels of one setting, prepared for any number of devices.
class MultigridModel {
 public:
  // `model` must outlive the object. Fails if the network has no stage, or if the longest stage has
  // too few layers for two levels.
  static Result<MultigridModel> Make(const NetworkModel& model, const MultigridSetting& setting);

  // Returns the number of blocks of the longest stage. With more devices, some would have no work.
  int MostDevices() const { return LongestHierarchy().level(0).blocks(); }
  // Models a run with `setting`. REQUIRES: devices <= MostDevices(), and `setting` has the levels,
  // the coarse operator and the relaxation of the setting given to Make.
  Result<ModelledRun> Run(Workload workload, int devices, const MultigridSetting& setting) const;
  // Returns a lower bound of the time (ms) of every schedule of `cycles` >= 1 cycles: the time of
  // the longest chain of steps that wait for each other, or the work divided by the number of
  // devices, whichever is larger.
  double LeastMs(Workload workload, int devices, int cycles) const;

  const Hierarchy& LongestHierarchy() const {
    return stages_[model_->network().LongestStage()]->hierarchy;
  }
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
  // By section; null for sections that run serially.
  std::vector<std::unique_ptr<StageLevels>> stages_;
};

}  // namespace ucudnn::multigrid
