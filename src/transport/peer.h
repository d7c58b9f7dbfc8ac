// The channel between ranks that are threads of one process. The ranks have a device each
// (transport "peer") or share one device ("loopback"). The receiver copies from the sender's
// memory.
//
// Exchange waits on the host for two things: each peer from which this rank receives must come to
// the same exchange, and each peer to which this rank sends must enqueue its copy. After that only
// streams wait. A launch of a graph cannot wait for other hosts, so neither Exchange nor AllReduce
// can be captured.
#pragma once

#include <memory>

#include "transport/channel.h"

namespace ucudnn::transport {

// All ranks of the group call this function. If it fails, it fails on all of them. REQUIRES: all
// ranks are threads of this process.
Result<std::unique_ptr<Channel>> OpenPeerChannel(const ChannelSetup& setup);

}  // namespace ucudnn::transport
