// A cost model in which a fully connected layer divided by channels may read images that are
// divided over the same devices by any of OWT's schemes: the search then chooses among them.
// Thread-compatible.
#pragma once

#include <optional>

#include "planner/cost/cost_model.h"
#include "planner/layout/owt.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// Scheme (a) is the transfer that `model` knows. (b) and (c) send the images in as many pieces as
// there are workers while the layer computes on the pieces before, forward, and return the
// gradients likewise. Only the layer's own computation hides them, whatever comes behind it, and
// memory is that of (a): the layers behind need not take the same passes.
class OwtCostModel : public CostModel {
 public:
  // Both outlive this; `model` is that of `machine`.
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

  // The fastest scheme between two configurations; none where they are not OWT's.
  std::optional<OwtScheme> Scheme(const PlannedLayer& consumer, int input,
                                  const ParallelConfiguration& from,
                                  const ParallelConfiguration& to) const;

 private:
  // (b) or (c), with the latencies of their steps.
  double PiecewiseMs(OwtScheme scheme, const PlannedLayer& consumer, int input,
                     const ParallelConfiguration& to) const;

  const CostModel& model_;
  const Machine& machine_;
};

}  // namespace ucudnn::planner
