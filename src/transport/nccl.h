// The channel over NCCL, between processes and threads with a GPU each. Two communicators of ours,
// one for exchanges and one for reductions, with few channels each, so that they leave the
// convolutions beside them most of the device. Each call waits for the one before: all ranks'
// devices run both communicators' kernels in one order, so that none waits for a peer that waits
// for it.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"

namespace ucudnn::transport {

// All ranks of the group call it; fails on all alike. `cudnn_file`: see nccl::Load. Connects every
// pair of ranks, so that nothing later pays for it.
Result<std::unique_ptr<Channel>> OpenNcclChannel(const ChannelSetup& setup,
                                                 const std::string& cudnn_file);

}  // namespace ucudnn::transport
