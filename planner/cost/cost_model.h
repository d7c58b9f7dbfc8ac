// The three terms of DeePa's equation 1, and the memory a device needs. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/cost/compute.h"
#include "planner/cost/configuration.h"
#include "planner/cost/update.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// What moves along one edge, by [configuration of the producer][of the consumer], row by row.
struct TransferTables {
  std::vector<double> ms;             // forward and backward
  std::vector<int64_t> copied_bytes;  // most any device receives and keeps until its backward pass
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual ComputeModel::Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const = 0;
  virtual double UpdateMs(const PlannedLayer& layer,
                          const ParallelConfiguration& configuration) const = 0;
  // The time that the reduction of a layer takes whose degree r is more than 1: partial sums of its
  // output travel to where they are added up, and its gradient to all that need it. 0 for others.
  virtual double ReductionMs(const PlannedLayer& layer,
                             const ParallelConfiguration& configuration) const = 0;
  // What moving input `input` of `consumer` costs. REQUIRES: a layer produces that input.
  virtual TransferTables Transfer(const PlannedLayer& consumer, int input,
                                  std::span<const ParallelConfiguration> from,
                                  std::span<const ParallelConfiguration> to) const = 0;
};

constexpr int kElementBytes = 4;  // all is fp32

// Transfers by exact box intersection over the links of a machine, any update and compute model.
class MachineCostModel : public CostModel {
 public:
  // References outlive the model.
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

// The most any worker of a layer needs: its parameters with their gradient and `optimizer_states`
// numbers each (1: momentum), its part of the output, which lives until the backward pass, the
// partial sum it computes before (of a reduction), and `workspace_bytes`. Copies of inputs come on
// top, edge by edge.
int64_t LayerMemoryBytes(const PlannedLayer& layer, const Degrees& degrees, int optimizer_states,
                         int64_t workspace_bytes);

}  // namespace ucudnn::planner
