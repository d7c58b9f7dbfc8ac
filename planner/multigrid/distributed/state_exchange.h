// Exchanges states between ranks, on the host or on devices.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// States to send to `rank` in one message, or to receive from it.
struct StateMessage {
  int rank = 0;
  std::span<const State> states;
};

// Limits, in numbers of states. `message` is the limit of any message of any rank, equal on all
// ranks. `sent` and `received` are the limits of all messages together that one Begin of this rank
// sends and receives.
struct ExchangeRoom {
  size_t message = 0;
  size_t sent = 0;
  size_t received = 0;
};

// Ranks that exchange with each other must make the same calls in the same order, with messages
// that match (peers.h). All calls except Finish must come from one thread.
class StateExchange {
 public:
  virtual ~StateExchange() = default;

  // Allocates buffers for `room`. All ranks that exchange must call it, before any other function.
  virtual Status Reserve(const ExchangeRoom& room) = 0;
  // Sends at most one message to each rank, and receives at most one from each. A message carries
  // the values that its states have after all work that lanes were given before the last Join. The
  // states may change after the call.
  virtual Status Begin(std::span<const StateMessage> sends,
                       std::span<const StateMessage> receives) = 0;
  // Makes later work of `lane` wait for everything that Begin receives. Exactly one lane must call
  // it after each Begin that receives, before the next Begin.
  virtual Status Finish(int lane) = 0;
  // Fails if a received message differs from what was sent. Called after a wait for the lanes.
  virtual Status Check() { return Status::Ok(); }
  // Ends all messages, so that nothing waits for a message any longer.
  virtual void Close() {}
  // Returns, on each rank that solves the stage, the numbers `mine` of all these ranks, by rank.
  virtual Result<std::vector<std::vector<double>>> Gather(std::span<const double> mine) = 0;

  Status Send(int to, std::span<const State> states) {
    const StateMessage message = {to, states};
    return Begin({&message, 1}, {});
  }
  // Receives states on lane 0.
  Status Receive(int from, std::span<const State> states) {
    const StateMessage message = {from, states};
    UCUDNN_RETURN_IF_ERROR(Begin({}, {&message, 1}));
    return Finish(0);
  }
};

}  // namespace ucudnn::multigrid
