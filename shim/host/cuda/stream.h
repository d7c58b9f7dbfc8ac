// Streams and events. A stream is a first-in first-out queue with a worker thread of its own,
// started at the first task; a task waits for the tickets it was given before it runs. All
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

// How far a stream has come; outlives the stream for those who wait on it.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t completed = 0;
};

// One enqueued task. The default ticket is done.
struct Ticket {
  std::shared_ptr<Progress> progress;
  uint64_t number = 0;
  bool Done() const;
  void Wait() const;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context& context, bool blocking, int priority);

  // Callers hold the context's order lock, which makes "enqueued before" one order over its
  // streams.
  Ticket Enqueue(std::function<void()> run, std::vector<Ticket> after);
  Ticket Last() const { return {progress_, issued_}; }
  // Whether `ticket` is one of this stream's own: what is enqueued from now on follows it.
  bool Issued(const Ticket& ticket) const { return ticket.progress == progress_; }
  // What is queued still runs; then the worker leaves.
  void Close();
  // Closed and with nothing left to run: nobody can be ordered after it any more.
  bool Drained();

  Context& context;
  const bool blocking;  // ordered with the legacy default stream
  const int priority;
  const uint64_t id;

  // What this stream is part of, and what the next node recorded in it will depend on. Guarded by
  // the lock of capture.cpp.
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

// What an event remembers of its latest cuEventRecord.
struct EventRecord {
  Ticket ticket;
  std::atomic<int64_t> time_ns{0};  // when the worker reached it; valid once the ticket is done
  // Recorded in a capture: no work stands behind it, but these nodes.
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
