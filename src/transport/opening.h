// Chooses a transport together with the other ranks of the group, and opens a rank's channel over
// that transport.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"
#include "transport/choice.h"

namespace ucudnn::transport {

struct OpenedChannel {
  std::unique_ptr<Channel> channel;
  Choice choice;        // one rank of the group shows choice.note to the user
  std::string library;  // NCCL's version and file; empty for other transports
};

// Opens the channel. All ranks of the group call this function; setup.context need not be current.
// If it fails, it fails on all ranks, but a rank that cannot gather returns its own error.
// `cudnn_file` is the path of the program's cuDNN (empty: unknown); NCCL may be found beside it.
Result<OpenedChannel> OpenChannel(const ChannelSetup& setup, Transport wanted,
                                  const std::string& cudnn_file);

}  // namespace ucudnn::transport
