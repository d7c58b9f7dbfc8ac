// The channel between processes of one machine, over shared host memory: for tests, and for ranks
// that share one GPU, which NCCL refuses. Nothing waits on the host: streams write and await
// sequence numbers beside the data.
//
// Ranks may be threads of one process, too; peer.h is shorter there.
#pragma once

#include <memory>

#include "transport/channel.h"

namespace ucudnn::transport {

// All ranks of the group call it; fails on all alike. REQUIRES: they are processes of one user in
// one process namespace.
Result<std::unique_ptr<Channel>> OpenLoopbackChannel(const ChannelSetup& setup);

}  // namespace ucudnn::transport
