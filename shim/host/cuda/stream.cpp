#include "shim/host/cuda/stream.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "shim/host/cuda/context.h"

namespace hostgpu {
namespace {

uint64_t NextStreamId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

// A program may exit while its streams still work. On a GPU that is harmless, but here the
// libraries' destructors would destroy objects that tasks use. So exit() waits for the tasks, but
// not longer than two seconds, because a task may wait for an event that never happens. Tasks that
// have not begun by then do nothing.
std::atomic<long> pending = 0;
std::atomic<bool> abandoned = false;
std::atomic<pid_t> owner = 0;

void AwaitTasks() {
  constexpr auto kLongest = std::chrono::seconds(2);
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  // A forked child has no worker threads, so it must not wait for tasks.
  while (getpid() == owner && pending > 0 && !abandoned) {
    if (std::chrono::steady_clock::now() > deadline) abandoned = true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

// An atexit function runs before the destructors of all objects that existed when it was
// registered. Libraries create more objects when they are first used, so AwaitTasks is registered
// again after tasks 1, 2, 4, 8, ...
void AwaitTasksAtExit() {
  static std::atomic<uint64_t> ended = 0;
  const uint64_t task = ++ended;
  owner = getpid();
  if ((task & (task - 1)) == 0) std::atexit(AwaitTasks);
}

}  // namespace

bool Ticket::Done() const {
  if (!progress) return true;
  std::lock_guard lock(progress->mutex);
  return progress->completed >= number;
}

void Ticket::Wait() const {
  if (!progress) return;
  std::unique_lock lock(progress->mutex);
  progress->changed.wait(lock, [this] { return progress->completed >= number; });
}

Stream::Stream(Context& context, bool blocking, int priority)
    : context(context), blocking(blocking), priority(priority), id(NextStreamId()) {}

Ticket Stream::Enqueue(std::function<void()> run, std::vector<Ticket> after) {
  std::lock_guard lock(mutex_);
  if (!started_) {
    // The worker blocks all signals, so that the application's threads get the application's
    // signals.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([self = shared_from_this()] { self->Work(); }).detach();
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    started_ = true;
  }
  tasks_.push_back({std::move(run), std::move(after), issued_ + 1});
  ++issued_;
  ++pending;
  wake_.notify_one();
  return Last();
}

void Stream::Close() {
  std::lock_guard lock(mutex_);
  closing_ = true;
  wake_.notify_one();
}

bool Stream::Drained() {
  {
    std::lock_guard lock(mutex_);
    if (!closing_) return false;
  }
  return Last().Done();
}

void Stream::Work() {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    for (const Ticket& ticket : task.after) ticket.Wait();
    if (!abandoned) task.run();
    task.run = nullptr;  // destroys what the task holds before the task counts as completed
    AwaitTasksAtExit();
    --pending;
    std::lock_guard lock(progress_->mutex);
    progress_->completed = task.number;
    progress_->changed.notify_all();
  }
}

}  // namespace hostgpu
