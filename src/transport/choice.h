// Which transport carries the exchanges of a group: a decision that every rank takes alike from
// what all of them have told. Pure functions, but for OwnFacts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/spatial_options.h"
#include "base/status.h"
#include "cuda/driver.h"

namespace ucudnn::transport {

// What a rank tells of itself. Texts that are equal name the same thing.
struct RankFacts {
  std::string host;     // a machine, as its processes see each other
  std::string process;  // within the host
  std::string device;   // a GPU, whichever host names it
  Transport wanted = Transport::kAuto;

  std::string Text() const;
  static Result<RankFacts> Parse(std::string_view text);
};

// Of this process and the device of the current context.
Result<RankFacts> OwnFacts(const cuda::Driver& driver, Transport wanted);

struct Choice {
  // Never kAuto. Ranks of one process that want loopback exchange by peer copies.
  Transport transport = Transport::kNccl;
  std::string note;  // what a person should know of it; empty: nothing
};

// By group rank. A refusal names the ranks and the values that cause it.
Result<Choice> ChooseTransport(std::span<const RankFacts> ranks);

}  // namespace ucudnn::transport
