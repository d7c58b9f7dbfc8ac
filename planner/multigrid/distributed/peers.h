// The ranks that solve one network together, as one of them sees the others. A rank is a device,
// or what stands for one: a thread, or a process. All ranks run the same program in lock step, so
// each message has one place in it, and messages from one rank to another arrive in their order.
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

  // The functions below are called by one thread at a time. Errors are those of the whole job, in
  // one line that names the rank at fault; every later call fails with it.

  // The numbers may change when it returns. Waits for nobody.
  virtual Status Send(int to, std::span<const double> numbers) = 0;
  // The next message of `from`. Its wait is bounded.
  virtual Result<std::vector<double>> Receive(int from) = 0;
  // Ends the job on all ranks. The first line of all counts.
  virtual void Fail(const std::string& line) = 0;

  // Of the whole job as this process sees it; lives as long as the job. For any thread.
  virtual FailureListeners& failure_listeners() = 0;
};

// Receives as many numbers as `numbers` has.
Status ReceiveInto(Peers& peers, int from, std::span<double> numbers);

// `number` of the rank `from` becomes that of all ranks.
Status ShareNumber(Peers& peers, int from, double& number);

// Which ranks of a job.
struct RankRange {
  int first = 0;
  int count = 1;

  bool Has(int rank) const { return rank >= first && rank < first + count; }
};

// The numbers of each rank of `ranks`, on all of them.
Result<std::vector<std::vector<double>>> GatherNumbers(Peers& peers, RankRange ranks,
                                                       std::span<const double> mine);

}  // namespace ucudnn::multigrid
