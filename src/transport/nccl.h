// The channel over NCCL, between processes and threads that each have a GPU of their own. It has
// two communicators: one for exchanges and one for reductions. Their CUDA kernels use few blocks,
// so that most of the device is left to convolutions that run at the same time. On the device, each
// call waits for the previous one (call_order.h). So all devices run the CUDA kernels of both
// communicators in one order, and no two of these kernels wait for each other.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"

namespace ucudnn::transport {

// Opens the channel, and connects every pair of ranks, so that no later call has to connect. All
// ranks of the group call this function. If it fails, it fails on all of them. nccl::Load explains
// `cudnn_file`.
Result<std::unique_ptr<Channel>> OpenNcclChannel(const ChannelSetup& setup,
                                                 const std::string& cudnn_file);

}  // namespace ucudnn::transport
