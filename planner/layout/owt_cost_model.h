// A cost model with OWT's schemes. If a fully connected layer is divided by channels, and the
// images that it reads are divided over the same devices, any of the schemes may bring them to the
// layer. The model then gives the time of the fastest scheme. Thread-compatible.
#pragma once

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/layout/owt.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// Adds OWT's schemes to `model`. Scheme (a) is the transfer of `model`. Schemes (b) and (c) send
// the images in as many pieces as there are workers: the layer computes on earlier pieces during
// the transfer, in both directions. Only the layer's own computation hides the transfer; later
// layers need not work in the same pieces, so they hide nothing, and the memory is that of scheme
// (a).
class OwtCostModel : public CostModel {
 public:
  // `model` must be the model of `machine`. Both references must outlive the object.
  OwtCostModel(const CostModel& model, const Machine& machine) : model_(model), machine_(machine) {}

  ComputeModel::Cost Compute(const PlannedLayer& layer, const Degrees& degrees) const override {
    return model_.Compute(layer, degrees);
  }
  double UpdateMs(const PlannedLayer& layer,
                  const ParallelConfiguration& configuration) const override {
    return model_.UpdateMs(layer, configuration);
  }
  double ReductionMs(const PlannedLayer& layer,
                     const ParallelConfiguration& configuration) const override {
    return model_.ReductionMs(layer, configuration);
  }
  TransferTables Transfer(const PlannedLayer& consumer, int input,
                          std::span<const ParallelConfiguration> from,
                          std::span<const ParallelConfiguration> to) const override;

  // Returns the fastest scheme between two configurations; none if the pair is not OWT's division
  // (images over devices, then channels over the same devices).
  std::optional<OwtScheme> Scheme(const PlannedLayer& consumer, int input,
                                  const ParallelConfiguration& from,
                                  const ParallelConfiguration& to) const;

 private:
  // Returns the time of scheme (b) or (c), with the latencies of its steps.
  double PiecewiseMs(OwtScheme scheme, const PlannedLayer& consumer, int input,
                     const ParallelConfiguration& to) const;

  const CostModel& model_;
  const Machine& machine_;
};

}  // namespace ucudnn::planner
