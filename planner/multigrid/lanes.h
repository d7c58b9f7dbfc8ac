// Lanes on which the blocks of a level run at once. Each lane has a thread; the first lane uses the
// caller's. Lanes that are streams of a device need no threads: the caller's thread enqueues the
// work of all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/status.h"

namespace ucudnn::multigrid {

// Refers to a function work(task, lane), which must outlive the object.
class LaneWork {
 public:
  template <typename Work>
  requires(!std::is_same_v<std::remove_cvref_t<Work>, LaneWork>) LaneWork(Work&& work)
      : work_(const_cast<void*>(static_cast<const void*>(&work))),
        call_([](void* function, int task, int lane) -> Status {
          return (*static_cast<std::remove_reference_t<Work>*>(function))(task, lane);
        }) {}
  Status operator()(int task, int lane) const { return call_(work_, task, lane); }

 private:
  void* work_;
  Status (*call_)(void* work, int task, int lane);
};

class Lanes {
 public:
  enum class Threads { kOneEach, kCallersAlone };

  // Starts the threads. Fails if the system cannot start more threads.
  static Result<Lanes> Start(int count, Threads threads = Threads::kOneEach);
  Lanes(Lanes&&) noexcept;
  Lanes& operator=(Lanes&&) noexcept;
  ~Lanes();

  int count() const { return count_; }

  // Runs work(task, lane) for the tasks 0 to `tasks` - 1, and waits for all of them. A lane runs
  // consecutive tasks in ascending order; a single task runs on the first lane. After a failed
  // task, its lane begins no later task; the error of the first failed lane is returned. Allocates
  // nothing.
  Status ForEach(int tasks, LaneWork work);

 private:
  struct Pool;

  Lanes(int count, std::unique_ptr<Pool> pool);

  int count_ = 1;
  std::unique_ptr<Pool> pool_;  // null if the caller's thread runs all lanes
};

}  // namespace ucudnn::multigrid
