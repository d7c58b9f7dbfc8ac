#include "planner/multigrid/distributed/thread_ranks.h"

#include <exception>
#include <thread>
#include <utility>

namespace ucudnn::multigrid {

class ThreadRanks::Rank : public Peers {
 public:
  Rank(ThreadRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.peers_.size()); }
  Status Send(int to, std::span<const double> numbers) override {
    return ranks_.Send(rank_, to, numbers);
  }
  Result<std::vector<double>> Receive(int from) override { return ranks_.Receive(from, rank_); }
  void Fail(const std::string& line) override { ranks_.Fail(line); }
  FailureListeners& failure_listeners() override { return ranks_.listeners_; }

 private:
  ThreadRanks& ranks_;
  int rank_;
};

ThreadRanks::ThreadRanks(int size, std::chrono::milliseconds timeout) : timeout_(timeout) {
  for (int rank = 0; rank < size; ++rank) peers_.push_back(std::make_unique<Rank>(*this, rank));
  mailboxes_.resize(static_cast<size_t>(size) * size);
  awaited_.assign(size, -1);
}
ThreadRanks::~ThreadRanks() = default;

Peers& ThreadRanks::At(int rank) { return *peers_[rank]; }

std::optional<std::string> ThreadRanks::Failure() {
  MutexLock lock(mutex_);
  return failure_;
}

Status ThreadRanks::Send(int from, int to, std::span<const double> numbers) {
  std::vector<double> message(numbers.begin(), numbers.end());
  MutexLock lock(mutex_);
  if (failure_) return Status::Error(*failure_);
  From(from, to).push_back(std::move(message));
  changed_.NotifyAll();
  return Status::Ok();
}

int ThreadRanks::LastAwaited(int rank) const {
  for (size_t i = 0; i < awaited_.size() && awaited_[rank] >= 0; ++i) rank = awaited_[rank];
  return rank;
}

Result<std::vector<double>> ThreadRanks::Receive(int from, int to) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  MutexLock lock(mutex_);
  Mailbox& mailbox = From(from, to);
  awaited_[to] = from;
  while (mailbox.empty() && !failure_) {
    if (changed_.WaitUntil(mutex_, deadline) || !mailbox.empty() || failure_) continue;
    FailWith("rank " + std::to_string(LastAwaited(from)) + " was waited for by others for " +
             std::to_string(timeout_.count()) + " ms and has not come");
  }
  awaited_[to] = -1;
  if (failure_) return Status::Error(*failure_);
  std::vector<double> message = std::move(mailbox.front());
  mailbox.pop_front();
  return message;
}

void ThreadRanks::Fail(const std::string& line) {
  MutexLock lock(mutex_);
  FailWith(line);
}

void ThreadRanks::FailWith(const std::string& line) {
  if (!failure_) failure_ = line;
  changed_.NotifyAll();
  listeners_.Tell();
}

Status RunOnThreads(ThreadRanks& ranks, int size, const std::function<Status(Peers& peers)>& work) {
  const auto run = [&](int rank) {
    const Status status = work(ranks.At(rank));
    if (!status.ok()) ranks.At(rank).Fail(status.message());
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 1; rank < size; ++rank) threads.emplace_back(run, rank);
  } catch (const std::exception& error) {
    ranks.At(0).Fail("the system gives no thread for device " + std::to_string(threads.size() + 1) +
                     ": " + error.what());
  }
  run(0);
  for (std::thread& thread : threads) thread.join();
  const std::optional<std::string> failure = ranks.Failure();
  return failure ? Status::Error(*failure) : Status::Ok();
}

}  // namespace ucudnn::multigrid
