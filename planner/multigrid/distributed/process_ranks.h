// Ranks that are processes, on one host or several. Messages use the control plane of the job
// (transport/ranks.h), through rank 0.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "planner/multigrid/distributed/peers.h"
#include "transport/ranks.h"

namespace ucudnn::multigrid {

class ProcessRanks : public Peers {
 public:
  // Meets the other ranks. Receive waits at most as long as the meeting's timeout. REQUIRES: the
  // meeting has one group.
  static Result<std::unique_ptr<ProcessRanks>> Join(const transport::Meeting& meeting);
  // Leaves the job, after a short wait for the other ranks.
  ~ProcessRanks() override;

  int rank() const override { return ranks_->membership().group_rank; }
  int size() const override { return ranks_->membership().group_size; }
  Status Send(int to, std::span<const double> numbers) override;
  Result<std::vector<double>> Receive(int from) override;
  void Fail(const std::string& line) override;
  FailureListeners& failure_listeners() override { return listeners_; }
  // Returns the reason why the job failed; none if it has not failed.
  std::optional<std::string> Failure() const { return ranks_->Failure(); }

 private:
  // The messages that have arrived from one rank, and the beginning of the next message.
  struct Inbox {
    std::deque<std::vector<double>> messages;
    std::vector<double> partial;
    size_t missing = 0;  // numbers of the next message that have not arrived
    bool has_left = false;
  };

  ProcessRanks(std::unique_ptr<transport::Ranks> ranks, transport::Milliseconds timeout);
  void Hear(int from, std::string_view record);
  // Returns the result that Receive would return without waiting; none if Receive must wait.
  std::optional<Result<std::vector<double>>> Taken(int from) UCUDNN_REQUIRES(mutex_);
  // Follows the chain of ranks that wait for each other, from `rank` on, as far as the ranks have
  // said which rank they wait for. Returns the last rank of the chain.
  int LastAwaited(int rank) const;

  const std::unique_ptr<transport::Ranks> ranks_;
  const transport::Milliseconds timeout_;
  Mutex mutex_;
  Condition changed_;
  std::vector<Inbox> inboxes_ UCUDNN_GUARDED_BY(mutex_);  // by rank
  FailureListeners listeners_;
};

}  // namespace ucudnn::multigrid
