// Exchanges states between ranks, on the host or on devices.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// One message to or from another rank of the job.
struct StateMessage {
  int rank = 0;
  std::span<const State> states;
};

// Bounds of numbers of states: `message` in any message of any rank, equal on all ranks; `sent` and
// `received` in all messages of this rank that one Begin sends and receives.
struct ExchangeRoom {
  size_t message = 0;
  size_t sent = 0;
  size_t received = 0;
};

// Ranks that exchange with each other make the same calls in the same order, with messages that
// match (peers.h). Calls come from one thread, except Finish.
class StateExchange {
 public:
  virtual ~StateExchange() = default;

  // Makes room. All ranks that exchange call it, before any other function.
  virtual Status Reserve(const ExchangeRoom& room) = 0;
  // Sends and receives at most one message to and from each rank. Sent states have the values after
  // all work that lanes were given before the last Join; they may change afterwards.
  virtual Status Begin(std::span<const StateMessage> sends,
                       std::span<const StateMessage> receives) = 0;
  // Makes later work of `lane` wait for all that Begin receives. Called once after each Begin that
  // receives, before the next Begin, by any one lane.
  virtual Status Finish(int lane) = 0;
  // Returns whether all received messages are what was sent. Called after the lanes were waited
  // for.
  virtual Status Check() { return Status::Ok(); }
  // Ends all messages. Nothing waits for a message any longer.
  virtual void Close() {}
  // Returns the numbers of each rank that solves the stage, by rank, on all of them.
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
