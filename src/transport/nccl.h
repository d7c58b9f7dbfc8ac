// The channel over NCCL, between processes and threads with a GPU each. It has two communicators of
// its own, one for exchanges and one for reductions. Their kernels use few blocks, so that most of
// the device is left to the convolutions beside them. On the device, each call waits for the
// previous one (call_order.h). So all devices run the kernels of both communicators in one order,
// and no kernel waits for a peer that waits for it.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"

namespace ucudnn::transport {

// Opens the channel, and connects every pair of ranks, so that no later call has to. All ranks of
// the group call it; if it fails, it fails on all. For `cudnn_file` see nccl::Load.
Result<std::unique_ptr<Channel>> OpenNcclChannel(const ChannelSetup& setup,
                                                 const std::string& cudnn_file);

}  // namespace ucudnn::transport
