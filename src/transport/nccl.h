// The channel over NCCL, between processes and threads with a GPU each. It has two communicators of
// its own, one for exchanges and one for reductions, with few NCCL channels each, so that they
// leave most of the device to the convolutions beside them. Each call waits for the previous one:
// all devices run the kernels of both communicators in one order, so no kernel waits for a peer
// that waits for it.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"

namespace ucudnn::transport {

// Opens the channel. All ranks of the group call it; if it fails, it fails on all. `cudnn_file`:
// see nccl::Load. It connects every pair of ranks, so that no later call has to.
Result<std::unique_ptr<Channel>> OpenNcclChannel(const ChannelSetup& setup,
                                                 const std::string& cudnn_file);

}  // namespace ucudnn::transport
