// What steps cost a device, measured: by what layers are shared out over ranks with one each.
#pragma once

#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/device/device_exchange.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/distributed/partition.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

// ms of each section's steps, of the layers' pass forward and, in training, of the adjoint and the
// gradient as well; empty for serial sections. One step of each kind is timed, with numbers of 0:
// kinds are few.
Result<std::vector<std::vector<double>>> MeasureDeviceSteps(const DeviceTarget& target,
                                                            const ResidualChain& chain, int batch,
                                                            bool trains, size_t workspace_limit);

// How many times as long as one of its steps a coarse step takes that applies `layers` of them to
// one input (CoarseOperator::kSum), measured: 1 where a single layer leaves the device idle,
// `layers` where it fills it. The stage has at least twice as many steps.
Result<double> MeasureSumCost(const DeviceTarget& target, const ResidualChain& chain,
                              const Stage& stage, int batch, int layers, size_t workspace_limit);

// What messages between ranks 0 and 1 cost, over the transport that serves them: ms, on rank 0. All
// ranks of `peers` call it.
Result<MessageCosts> MeasureDeviceMessages(const DeviceTarget& target, Peers& peers,
                                           const RankTransport& how, int64_t state_numbers);

// One step of each kind of the stages of `network`, of `chain`, alone and several at once, both
// side by side and of one input: forward, adjoint and gradient. Takes a fraction of a second for
// each.
Result<std::vector<MeasuredBatches::Kind>> MeasureDeviceLayers(const DeviceTarget& target,
                                                               const ResidualChain& chain,
                                                               const NetworkLayers& network,
                                                               size_t workspace_limit);

}  // namespace ucudnn::multigrid
