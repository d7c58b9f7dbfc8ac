// Streams and events. A stream is a first-in first-out queue with its own worker thread, which
// starts at the first task. Before a task runs, the worker waits for the task's tickets.
// Thread-safe, but Enqueue, Last and Drained of a stream need its context's lock `order_`.
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

// The number of the last completed task of a stream. Code that waits for a stream may still use
// this object after the stream is destroyed.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t completed = 0;
};

// Identifies one enqueued task. A default-constructed ticket counts as done.
struct Ticket {
  std::shared_ptr<Progress> progress;
  uint64_t number = 0;
  bool Done() const;
  void Wait() const;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context& context, bool blocking, int priority);

  // Enqueues a task. The caller holds the context's lock `order_`, so that there is one order of
  // enqueuing for all streams of the context.
  Ticket Enqueue(std::function<void()> run, std::vector<Ticket> after);
  Ticket Last() const { return {progress_, issued_}; }
  // Returns true if `ticket` belongs to this stream. If so, tasks that are enqueued on this stream
  // from now on run after the ticket's task.
  bool Issued(const Ticket& ticket) const { return ticket.progress == progress_; }
  // Ends the worker after it has run all queued tasks.
  void Close();
  // Returns true if the stream is closed and all its tasks have run. Then no later task needs to
  // wait for it.
  bool Drained();

  Context& context;
  const bool blocking;  // its work is ordered with work of the legacy default stream
  const int priority;
  const uint64_t id;

  // The capture to which this stream belongs, and the nodes on which its next node will depend. The
  // mutex in capture.cpp guards both.
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
  uint64_t issued_ = 0;  // guarded by the context's lock `order_`
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool started_ = false;
  bool closing_ = false;
};

// One cuEventRecord of an event.
struct EventRecord {
  Ticket ticket;
  // The time at which the worker reached the event; valid once `ticket` is done.
  std::atomic<int64_t> time_ns{0};
  // If a capture recorded the event, `ticket` is not used. A wait for the event is then a
  // dependency on these nodes.
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
