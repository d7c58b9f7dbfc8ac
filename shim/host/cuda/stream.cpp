#include "shim/host/cuda/stream.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

#include "shim/host/cuda/context.h"

namespace hostgpu {
namespace {

uint64_t NextStreamId() {
  static std::atomic<uint64_t> next{1};
  return next++;
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

Stream::Stream(Context& context, bool blocking, unsigned flags, int priority)
    : context(context), blocking(blocking), flags(flags), priority(priority), id(NextStreamId()) {}

Ticket Stream::Enqueue(std::function<void()> run, std::vector<Ticket> after) {
  std::lock_guard lock(mutex_);
  if (!started_) {
    // The application's signals belong to the application's threads.
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
    task.run();
    task.run = nullptr;  // what it holds is gone before anyone sees it completed
    std::lock_guard lock(progress_->mutex);
    progress_->completed = task.number;
    progress_->changed.notify_all();
  }
}

}  // namespace hostgpu
