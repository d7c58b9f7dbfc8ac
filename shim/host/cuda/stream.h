// Streams and events. A stream is a first-in first-out queue with a worker thread of its own,
// started at the first task; before a task runs, it waits for its tickets. All functions are
// thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace hostgpu {

struct Capture;
struct Context;
struct Node;

// How far a stream has come. It outlives the stream for code that waits for it.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t completed = 0;
};

// One enqueued task. The default ticket counts as done.
struct Ticket {
  std::shared_ptr<Progress> progress;
  uint64_t number = 0;
  bool Done() const;
  void Wait() const;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context& context, bool blocking, int priority);

  // Enqueues a task. Callers hold the context's order lock, so "enqueued before" is one order over
  // its streams.
  Ticket Enqueue(std::function<void()> run, std::vector<Ticket> after);
  Ticket Last() const { return {progress_, issued_}; }
  // Returns whether `ticket` is one of this stream's own: tasks that are enqueued from now on
  // follow it.
  bool Issued(const Ticket& ticket) const { return ticket.progress == progress_; }
  // Queued tasks still run; then the worker ends.
  void Close();
  // Returns whether it is closed and has nothing left to run: no later task can be ordered after
  // it.
  bool Drained();

  Context& context;
  const bool blocking;  // ordered with the legacy default stream
  const int priority;
  const uint64_t id;

  // The capture that this stream is part of, and the nodes on which its next node will depend.
  // Guarded by the lock of capture.cpp.
  std::shared_ptr<Capture> capture;
  std::vector<const Node*> tail;

 private:
  struct Task {
    std::function<void()> run;
    std::vector<Ticket> after;
    uint64_t number;
  };
  void Work();

  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  uint64_t issued_ = 0;  // under the context's order lock
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool started_ = false;
  bool closing_ = false;
};

// The latest cuEventRecord of an event.
struct EventRecord {
  Ticket ticket;
  std::atomic<int64_t> time_ns{0};  // when the worker reached it; valid once the ticket is done
  // If the event was recorded in a capture, it stands for these nodes instead of work.
  std::shared_ptr<Capture> capture;
  std::vector<const Node*> nodes;
};

struct Event {
  Event(Context& context, unsigned flags) : context(context), flags(flags) {}

  std::shared_ptr<EventRecord> Latest() const {
    std::lock_guard lock(mutex);
    return latest;
  }

  Context& context;
  const unsigned flags;
  mutable std::mutex mutex;
  std::shared_ptr<EventRecord> latest;
};

}  // namespace hostgpu
