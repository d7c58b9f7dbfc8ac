// Ranks that are threads of this process: messages go through memory.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "planner/multigrid/distributed/peers.h"

namespace ucudnn::multigrid {

class ThreadRanks {
 public:
  // `timeout` is how long a rank may be waited for.
  explicit ThreadRanks(int size, std::chrono::milliseconds timeout = std::chrono::minutes(10));
  ~ThreadRanks();

  // `rank`'s view of the job, for one thread.
  Peers& At(int rank);
  // Why the job failed.
  std::optional<std::string> Failure();

 private:
  class Rank;
  using Mailbox = std::deque<std::vector<double>>;

  Mailbox& From(int from, int to) UCUDNN_REQUIRES(mutex_) {
    return mailboxes_[static_cast<size_t>(from) * peers_.size() + to];
  }
  Status Send(int from, int to, std::span<const double> numbers);
  Result<std::vector<double>> Receive(int from, int to);
  void Fail(const std::string& line);
  // The first line of all counts.
  void FailWith(const std::string& line) UCUDNN_REQUIRES(mutex_);
  // The rank at the end of those that wait for each other, from `rank` on.
  int LastAwaited(int rank) const UCUDNN_REQUIRES(mutex_);

  const std::chrono::milliseconds timeout_;
  std::vector<std::unique_ptr<Rank>> peers_;
  Mutex mutex_;
  Condition changed_;
  std::vector<Mailbox> mailboxes_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<int> awaited_ UCUDNN_GUARDED_BY(mutex_);  // by rank: for whom it waits; -1: nobody
  std::optional<std::string> failure_ UCUDNN_GUARDED_BY(mutex_);
  FailureListeners listeners_;
};

// Runs `work` for each rank on a thread of its own, rank 0 on the caller's. The error is the job's:
// that of the first rank whose work fails.
Status RunOnThreads(ThreadRanks& ranks, int size, const std::function<Status(Peers& peers)>& work);

}  // namespace ucudnn::multigrid
