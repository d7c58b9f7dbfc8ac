// Lanes on which the blocks of a level run at once: each has a thread, the caller's among them, or
// the caller's thread serves all, as where a lane is a stream of a device.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/status.h"

namespace ucudnn::multigrid {

class Lanes {
 public:
  enum class Threads { kOneEach, kCallersAlone };

  // An error where the system gives no more threads.
  static Result<Lanes> Start(int count, Threads threads = Threads::kOneEach);
  Lanes(Lanes&&) noexcept;
  Lanes& operator=(Lanes&&) noexcept;
  ~Lanes();

  int count() const { return count_; }

  // work(task, lane) for each task below `tasks`, and waits for all. A lane has tasks that follow
  // each other, in rising order. The error is that of the first task that fails in its lane; later
  // ones of that lane do not begin. Allocates nothing.
  template <typename Work>
  Status ForEach(int tasks, Work&& work) {
    using Function = std::remove_reference_t<Work>;
    return Run(tasks, &work, [](void* function, int task, int lane) {
      return (*static_cast<Function*>(function))(task, lane);
    });
  }

 private:
  using Call = Status (*)(void* work, int task, int lane);
  struct Pool;

  Lanes(int count, std::unique_ptr<Pool> pool);
  Status Run(int tasks, void* work, Call call);

  int count_ = 1;
  std::unique_ptr<Pool> pool_;  // null where the caller's thread serves all
};

}  // namespace ucudnn::multigrid
