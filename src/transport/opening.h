// Opens a rank's channel over the transport that serves its group.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"
#include "transport/choice.h"

namespace ucudnn::transport {

struct OpenedChannel {
  std::unique_ptr<Channel> channel;
  Choice choice;        // its note is shown to the user by one rank
  std::string library;  // NCCL's version and file; empty for another transport
};

// All ranks of the group call it, with setup.context current or not. If it fails, it fails on all,
// but a rank that cannot gather reports its own reason. `cudnn_file` is the path of the program's
// cuDNN, beside which its NCCL may be; empty: unknown.
Result<OpenedChannel> OpenChannel(const ChannelSetup& setup, Transport wanted,
                                  const std::string& cudnn_file);

}  // namespace ucudnn::transport
