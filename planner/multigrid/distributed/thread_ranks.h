// Ranks that are threads of this process. Their messages are copies in memory.
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
  // Receive waits at most `timeout`.
  explicit ThreadRanks(int size, std::chrono::milliseconds timeout = std::chrono::minutes(10));
  ~ThreadRanks();

  // Returns the Peers of `rank`, which one thread may use.
  Peers& At(int rank);
  // Returns the reason why the job failed; none if it has not failed.
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
  // Keeps the line of the first failure, and ends all waits.
  void FailWith(const std::string& line) UCUDNN_REQUIRES(mutex_);
  // Follows the chain of ranks that wait for each other, from `rank` on. Returns the last rank of
  // the chain.
  int LastAwaited(int rank) const UCUDNN_REQUIRES(mutex_);

  const std::chrono::milliseconds timeout_;
  std::vector<std::unique_ptr<Rank>> peers_;
  Mutex mutex_;
  Condition changed_;
  std::vector<Mailbox> mailboxes_ UCUDNN_GUARDED_BY(mutex_);
  // By rank: the rank that it waits for; -1 if it waits for none.
  std::vector<int> awaited_ UCUDNN_GUARDED_BY(mutex_);
  std::optional<std::string> failure_ UCUDNN_GUARDED_BY(mutex_);
  FailureListeners listeners_;
};

// Runs work() for each rank on a separate thread; rank 0 uses the caller's thread. Returns the
// job's error: the error of the first rank whose work fails.
Status RunOnThreads(ThreadRanks& ranks, int size, const std::function<Status(Peers& peers)>& work);

}  // namespace ucudnn::multigrid
