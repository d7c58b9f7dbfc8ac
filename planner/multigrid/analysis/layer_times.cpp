#include "planner/multigrid/analysis/layer_times.h"

#include <algorithm>

namespace ucudnn::multigrid {

RunCost RooflineTimes::Cost(LayerPass pass, const LayerBatch& batch) const {
  const double layers = batch.groups * batch.per_group;
  RunCost cost;
  for (const LayerKernel& kernel : kinds_[batch.kind].kernels(pass)) {
    const double bytes = batch.groups * kernel.shared_bytes + layers * kernel.own_bytes;
    const double operations_ms = layers * kernel.operations / (device_.tflops * 1e9);
    const double bytes_ms = bytes / (device_.memory_gb_per_s * 1e6);
    const double fill = std::min(1.0, layers * kernel.threads / device_.filling_threads);
    cost.ms += device_.kernel_us / 1e3 + std::max(operations_ms / fill, bytes_ms);
    cost.work_ms += std::max(operations_ms, bytes_ms);
    cost.launches += 1;
  }
  return cost;
}

RunCost MeasuredTimes::Cost(LayerPass pass, const LayerBatch& batch) const {
  const Kind& kind = kinds_[batch.kind];
  const bool shares = batch.per_group > 1 && pass == LayerPass::kForward && kind.shared_ms > 0;
  const double layer_ms = shares ? kind.shared_ms : kind.ms[static_cast<size_t>(pass)];
  const double ms = batch.groups * batch.per_group * layer_ms;
  return {ms, ms, 0};
}

namespace {

// Returns the ms of `layers` layers that run at once, interpolated linearly between one layer,
// which takes `one` ms, and the measured batch.
double MsOf(double layers, double one, const MeasuredBatches::Batch& batch) {
  const double more = std::max(0.0, batch.ms - one) / (batch.layers - 1);
  return one + (layers - 1) * more;
}

}  // namespace

RunCost MeasuredBatches::Cost(LayerPass pass, const LayerBatch& batch) const {
  RunCost cost = model_.Cost(pass, batch);
  const auto at = static_cast<size_t>(pass);
  const Kind& kind = kinds_[batch.kind];
  const double one = kind.ms[at];
  if (!kind.is_measured || one == 0) return cost;
  const Batch& beside = kind.side_by_side[at];
  const bool shares = batch.per_group > 1 && pass == LayerPass::kForward;
  cost.ms = MsOf(batch.groups, one, beside);
  cost.ms *= MsOf(batch.per_group, one, shares ? kind.together : beside) / one;
  // Assumes that the measured batch fills the device, so that a layer's work is its share of the
  // batch's time.
  const double of_many = std::min(one, beside.ms / beside.layers);
  cost.work_ms = std::min(cost.ms, batch.groups * batch.per_group * of_many);
  return cost;
}

}  // namespace ucudnn::multigrid
