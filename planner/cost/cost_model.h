// The costs of a layer's configurations: the three terms of DeePa's equation 1, the time of
// reductions (which the paper does not have), and the memory that a device needs.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/cost/compute.h"
#include "planner/cost/configuration.h"
#include "planner/cost/update.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// The costs of one edge of the layer graph. Both tables are in row-major order: [configuration of
// the producer][configuration of the consumer].
struct TransferTables {
  std::vector<double> ms;  // time of both passes
  // The largest number of bytes that any device receives and keeps until the backward pass.
  std::vector<int64_t> copied_bytes;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual ComputeModel::Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const = 0;
  virtual double UpdateMs(const PlannedLayer& layer,
                          const ParallelConfiguration& configuration) const = 0;
  // Returns the time of a layer's reduction if its degree r is more than 1; else 0. Partial sums of
  // the output travel to the device that adds them up, and the output's gradient travels to all
  // devices that need it.
  virtual double ReductionMs(const PlannedLayer& layer,
                             const ParallelConfiguration& configuration) const = 0;
  // Returns the costs of moving input `input` of `consumer`. REQUIRES: a layer produces that input.
  virtual TransferTables Transfer(const PlannedLayer& consumer, int input,
                                  std::span<const ParallelConfiguration> from,
                                  std::span<const ParallelConfiguration> to) const = 0;
};

constexpr int kElementBytes = 4;  // all tensors are fp32

// Computes the time of a transfer from the machine's links and from the exact intersections of two
// boxes: the box that a device holds and the box that another device needs. `update` and `compute`
// give the times of updates and of computing.
class MachineCostModel : public CostModel {
 public:
  // The references must outlive the model.
  MachineCostModel(const Machine& machine, UpdateModel update, const ComputeModel& compute)
      : machine_(machine), update_(update), compute_(compute) {}

  ComputeModel::Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const override {
    return compute_.Compute(layer, degrees);
  }
  double UpdateMs(const PlannedLayer& layer,
                  const ParallelConfiguration& configuration) const override;
  double ReductionMs(const PlannedLayer& layer,
                     const ParallelConfiguration& configuration) const override;
  TransferTables Transfer(const PlannedLayer& consumer, int input,
                          std::span<const ParallelConfiguration> from,
                          std::span<const ParallelConfiguration> to) const override;

 private:
  const Machine& machine_;
  const UpdateModel update_;
  const ComputeModel& compute_;
};

// Returns the most memory that any worker of a layer needs. Counts the worker's parameters and, for
// each parameter, a gradient and `optimizer_states` further numbers (1 for momentum). Also counts
// its fixed parameters, its part of the output (kept until the backward pass), its InnerElements(),
// the partial sum of a reduction, and `workspace_bytes`. Does not count copies of inputs, because
// TransferTables has them for each edge.
int64_t LayerMemoryBytes(const PlannedLayer& layer, const Degrees& degrees, int optimizer_states,
                         int64_t workspace_bytes);

}  // namespace ucudnn::planner
