// The ranks that solve one network together, as seen by one of them. A rank is a device, or a
// thread or process in place of a device. All ranks run the same program, so both ends of a message
// are at the same place of the program, and messages from one rank to another arrive in the order
// in which they were sent.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/failure_listeners.h"

namespace ucudnn::multigrid {

class Peers {
 public:
  virtual ~Peers() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // At most one thread at a time may call the functions below. An error ends the whole job: every
  // later call fails with the same line, which names the rank at fault.

  // Sends a message without waiting for the receiver. The caller may change `numbers` afterwards.
  virtual Status Send(int to, std::span<const double> numbers) = 0;
  // Waits for the next message from `from`, up to a time limit.
  virtual Result<std::vector<double>> Receive(int from) = 0;
  // Ends the job on all ranks. If several ranks fail, the first line that arrives is the job's
  // error.
  virtual void Fail(const std::string& line) = 0;

  // Returns the listeners of the whole job in this process, which exist as long as the job. Any
  // thread may call this function.
  virtual FailureListeners& failure_listeners() = 0;
};

// Receives numbers.size() numbers. Fails the job if the message has another length.
Status ReceiveInto(Peers& peers, int from, std::span<double> numbers);

// Copies the value of `number` on rank `from` to all ranks. All ranks must call it.
Status ShareNumber(Peers& peers, int from, double& number);

// Gathers numbers: each of the first `ranks` ranks gets the numbers of all these ranks, in the
// order of the ranks. All these ranks must call it.
Result<std::vector<std::vector<double>>> GatherNumbers(Peers& peers, int ranks,
                                                       std::span<const double> mine);

}  // namespace ucudnn::multigrid
