// Measures the times of steps and messages on a device.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/device/device_exchange.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/distributed/partition.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

// Measures the time of a coarse step that applies `layers` layers to one input
// (CoarseOperator::kSum), divided by the time of a single step. The result is about 1 if a single
// layer leaves most of the device idle, and about `layers` if a single layer fills the device. All
// lanes together use at most `workspace_limit` bytes of workspace. REQUIRES: the stage has at least
// 2 * `layers` steps.
Result<double> MeasureSumCost(const DeviceTarget& target, const ResidualChain& chain,
                              const Stage& stage, int batch, int layers, size_t workspace_limit);

// Measures the ms of messages between ranks 0 and 1 over the transport of `how`. All ranks of
// `peers` call it; only rank 0 gets a valid result.
Result<MessageCosts> MeasureDeviceMessages(const DeviceTarget& target, Peers& peers,
                                           const RankTransport& how, int64_t state_numbers);

enum class StepsAtOnce { kOne, kSeveral };
// Measures one step of each kind in the stages of `network`, for each of `passes`. With kSeveral,
// also measures several steps at once, both side by side and on one input. Takes a fraction of a
// second for each kind. REQUIRES: `network` was derived from `chain`.
Result<std::vector<MeasuredBatches::Kind>> MeasureDeviceLayers(
    const DeviceTarget& target, const ResidualChain& chain, const NetworkLayers& network,
    StepsAtOnce at_once, std::span<const LayerPass> passes, size_t workspace_limit);

}  // namespace ucudnn::multigrid
