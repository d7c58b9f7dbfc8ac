// The ranks that solve one network together, as seen by one of them. A rank is a device, or a
// thread or process in place of a device. All ranks run the same program in lock step, so each
// message has one place in the program, and messages from one rank to another arrive in the order
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

  // The functions below are called by one thread at a time. An error is an error of the whole job,
  // in one line that names the rank at fault; every later call fails with it.

  // Sends a message without waiting for the receiver. The caller may change `numbers` afterwards.
  virtual Status Send(int to, std::span<const double> numbers) = 0;
  // Waits for the next message of `from`, for a limited time.
  virtual Result<std::vector<double>> Receive(int from) = 0;
  // Ends the job on all ranks. If several ranks fail, the first line is the job's error.
  virtual void Fail(const std::string& line) = 0;

  // Returns the listeners of the whole job in this process, which live as long as the job. Any
  // thread may call it.
  virtual FailureListeners& failure_listeners() = 0;
};

// Receives numbers.size() numbers. Fails the job if the message has another length.
Status ReceiveInto(Peers& peers, int from, std::span<double> numbers);

// Copies `number` of the rank `from` to all ranks. All ranks call it.
Status ShareNumber(Peers& peers, int from, double& number);

// Consecutive ranks of a job.
struct RankRange {
  int first = 0;
  int count = 1;

  bool Has(int rank) const { return rank >= first && rank < first + count; }
};

// Returns the numbers of each rank of `ranks`, in their order, on all of them. All of them call it.
Result<std::vector<std::vector<double>>> GatherNumbers(Peers& peers, RankRange ranks,
                                                       std::span<const double> mine);

}  // namespace ucudnn::multigrid
