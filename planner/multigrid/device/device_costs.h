// What steps and messages cost a device, measured.
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

// How many times as long as one of its steps a coarse step takes that applies `layers` of them to
// one input (CoarseOperator::kSum), measured: 1 where a single layer leaves the device idle,
// `layers` where it fills it. The stage has at least twice as many steps.
Result<double> MeasureSumCost(const DeviceTarget& target, const ResidualChain& chain,
                              const Stage& stage, int batch, int layers, size_t workspace_limit);

// What messages between ranks 0 and 1 cost, over the transport that serves them: ms, on rank 0. All
// ranks of `peers` call it.
Result<MessageCosts> MeasureDeviceMessages(const DeviceTarget& target, Peers& peers,
                                           const RankTransport& how, int64_t state_numbers);

enum class StepsAtOnce { kOne, kSeveral };
// Times one step of each kind of the stages of `network`, of `chain`, in these passes; with
// kSeveral also several steps at once, both side by side and of one input. Takes a fraction of a
// second for each.
Result<std::vector<MeasuredBatches::Kind>> MeasureDeviceLayers(
    const DeviceTarget& target, const ResidualChain& chain, const NetworkLayers& network,
    StepsAtOnce at_once, std::span<const LayerPass> passes, size_t workspace_limit);

}  // namespace ucudnn::multigrid
