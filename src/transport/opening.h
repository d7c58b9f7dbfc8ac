// Opening a rank's channel over whichever transport serves its group.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"
#include "transport/choice.h"

namespace ucudnn::transport {

struct OpenedChannel {
  std::unique_ptr<Channel> channel;
  Choice choice;        // its note is for the user, from one rank
  std::string library;  // NCCL's version and file; empty: another transport
};

// All ranks of the group call it, with setup.context current or not; fails on all alike, save that
// a rank which cannot gather says why. `cudnn_file` is the path of the program's cuDNN, beside
// which its NCCL may be; empty: unknown.
Result<OpenedChannel> OpenChannel(const ChannelSetup& setup, Transport wanted,
                                  const std::string& cudnn_file);

}  // namespace ucudnn::transport
