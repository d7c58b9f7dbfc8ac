// A model in which every layer takes the same time on a device, so that schedules can be worked out
// by hand.
#pragma once

#include "planner/machine/machine.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/analysis/network_model.h"

namespace ucudnn::multigrid {

// A batch takes 1 ms and is one launch, however many layers it has.
class UnitTimes : public LayerTimes {
 public:
  explicit UnitTimes(double share) : share_(share) {}

  RunCost Cost(LayerPass, const LayerBatch&) const override { return {1, share_, 1}; }

 private:
  const double share_;
};

// Returns a network that is one stage of `steps` layers of one kind. States are so small that the
// time of a message is its latency.
inline NetworkLayers PlainLayers(int steps) {
  NetworkLayers layers;
  layers.name = "plain";
  layers.kinds.resize(1);
  layers.kinds[0].parameters = 10;
  layers.kinds[0].kept = 3;
  layers.sections.push_back({true, std::vector<int>(static_cast<size_t>(steps), 0), 1});
  return layers;
}

// Returns a machine on which only messages (`latency_ms` each) and layers take time.
inline planner::Machine LatencyMachine(double latency_ms, int devices, int kernels_at_once) {
  planner::Machine machine;
  machine.name = "made";
  machine.device = {"device", int64_t{1} << 40, 1, 1e6};
  machine.device.launch_us = machine.device.kernel_us = 0;
  machine.device.concurrent_kernels = kernels_at_once;
  machine.levels = {{"link", devices, 1e5, latency_ms * 1e3}};
  return machine;
}

}  // namespace ucudnn::multigrid
