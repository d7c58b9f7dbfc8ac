// Chooses the transport of a group's exchanges. Every rank makes the same decision from the facts
// that all ranks have sent. Pure functions, except OwnFacts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cuda/driver.h"
#include "options/spatial_options.h"

namespace ucudnn::transport {

// The facts that a rank tells about itself. Equal texts name the same thing.
struct RankFacts {
  std::string host;     // a machine, as its processes know each other
  std::string process;  // within the host
  std::string device;   // a GPU; every host gives it the same name
  Transport wanted = Transport::kAuto;

  std::string Text() const;
  static Result<RankFacts> Parse(std::string_view text);
};

// Returns the facts of this process and of the device of the current context.
Result<RankFacts> OwnFacts(const cuda::Driver& driver, Transport wanted);

struct Choice {
  // Never kAuto. Ranks of one process that ask for loopback exchange by peer copies.
  Transport transport = Transport::kNccl;
  std::string note;  // what the user should know about the choice; empty: nothing
};

// Chooses from facts by group rank. A refusal names the ranks and the values that cause it.
Result<Choice> ChooseTransport(std::span<const RankFacts> ranks);

}  // namespace ucudnn::transport
