// How states go from rank to rank: wherever they lie, on the host or on devices.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// One message to, or from, another rank of the job.
struct StateMessage {
  int rank = 0;
  std::span<const State> states;
};

// How many states there are at most: in any message of any rank, the same number on all, and in all
// messages of this rank that one Begin sends and receives.
struct ExchangeRoom {
  size_t message = 0;
  size_t sent = 0;
  size_t received = 0;
};

// Ranks that exchange with each other call it in the same order, with messages that match
// (peers.h). Calls come from one thread, but for Finish.
class StateExchange {
 public:
  virtual ~StateExchange() = default;

  // All ranks that exchange call it, before anything else.
  virtual Status Reserve(const ExchangeRoom& room) = 0;
  // At most one message to, and one from, each rank. What is sent are the states behind all that
  // lanes were given before they were joined; they may change when it returns.
  virtual Status Begin(std::span<const StateMessage> sends,
                       std::span<const StateMessage> receives) = 0;
  // What `lane` is given from now on is behind all that Begin receives. Once for each Begin that
  // receives, before the next one, by whichever lane.
  virtual Status Finish(int lane) = 0;
  // Whether all that was received is what was sent: asked when lanes were waited for.
  virtual Status Check() { return Status::Ok(); }
  // There are no more messages. Nothing waits for one any longer.
  virtual void Close() {}
  // The numbers of each rank that solves together, by rank, on all of them.
  virtual Result<std::vector<std::vector<double>>> Gather(std::span<const double> mine) = 0;

  Status Send(int to, std::span<const State> states) {
    const StateMessage message = {to, states};
    return Begin({&message, 1}, {});
  }
  // Receives on lane 0.
  Status Receive(int from, std::span<const State> states) {
    const StateMessage message = {from, states};
    UCUDNN_RETURN_IF_ERROR(Begin({}, {&message, 1}));
    return Finish(0);
  }
};

}  // namespace ucudnn::multigrid
