// The channel between ranks that are threads of one process, with a device each (transport "peer")
// or with one for all ("loopback"): the receiver copies out of the sender's memory.
//
// Exchange waits on the host until each peer it receives from has come to the same exchange, and
// until each it sends to has enqueued its copy; streams do the rest. So it cannot be captured.
#pragma once

#include <memory>

#include "transport/channel.h"

namespace ucudnn::transport {

// All ranks of the group call it; fails on all alike. REQUIRES: they are threads of this process.
Result<std::unique_ptr<Channel>> OpenPeerChannel(const ChannelSetup& setup);

}  // namespace ucudnn::transport
