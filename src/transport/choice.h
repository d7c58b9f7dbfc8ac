// Chooses the transport for a group's exchanges. Every rank makes the same choice, because each
// uses the facts that all ranks have sent. Pure functions, except OwnFacts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cuda/driver.h"
#include "options/spatial_options.h"

namespace ucudnn::transport {

// The facts about itself that a rank sends to the other ranks. If the text of `host`, `process` or
// `device` is equal on two ranks, the ranks have the same host, process or device.
struct RankFacts {
  std::string host;     // the machine, or container, in which processes can share memory
  std::string process;  // unique within the host
  std::string device;   // identifies the GPU, even across containers
  Transport wanted = Transport::kAuto;

  std::string Text() const;
  static Result<RankFacts> Parse(std::string_view text);
};

// Returns the facts of this process and of the device of the current context.
Result<RankFacts> OwnFacts(const cuda::Driver& driver, Transport wanted);

struct Choice {
  // Never kAuto. If ranks of one process ask for loopback, they exchange by peer copies.
  Transport transport = Transport::kNccl;
  std::string note;  // a remark about the choice for the user; may be empty
};

// Chooses from facts in the order of group ranks. An error names the ranks and the values that
// cause it.
Result<Choice> ChooseTransport(std::span<const RankFacts> ranks);

}  // namespace ucudnn::transport
