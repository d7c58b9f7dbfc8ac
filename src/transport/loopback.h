// The channel between processes of one machine, over shared host memory: for tests, and for ranks
// that share one GPU, which NCCL refuses. In Exchange and AllReduce no host waits for another rank:
// streams write, and wait for, words beside the data (lanes.h). A host waits only for its own
// stream, and only if its rank must still receive hundreds of messages that are enqueued. Captured
// and uncaptured calls use different memory, so graphs may run at the same time as uncaptured
// calls.
//
// Ranks that are threads of one process may use it only if each has a device of its own: freeing
// memory waits for all streams of a context, so it would wait for other ranks.
#pragma once

#include <memory>

#include "transport/channel.h"

namespace ucudnn::transport {

// All ranks of the group call this function. If it fails, it fails on all of them. REQUIRES: all
// ranks are in processes of one user in one process namespace.
Result<std::unique_ptr<Channel>> OpenLoopbackChannel(const ChannelSetup& setup);

}  // namespace ucudnn::transport
