// Parallel loops of the engines, on the OpenMP threads that oneDNN also uses. Any thread may call
// them. The number of threads is the same for the whole process, so a plan that one thread created
// works in another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace hostgpu {

int ThreadCount();

// While it exists, OpenMP regions that this thread starts, also in oneDNN, have `count` threads.
class ScopedThreadCount {
 public:
  explicit ScopedThreadCount(int count);
  ~ScopedThreadCount();
  ScopedThreadCount(const ScopedThreadCount&) = delete;
  ScopedThreadCount& operator=(const ScopedThreadCount&) = delete;

 private:
  int previous_;
};

// Runs body(context, task) for each task from 0 to tasks - 1, in any order and in parallel. Returns
// false if a call of body returned false.
bool ParallelTasks(int64_t tasks, bool (*body)(void* context, int64_t task), void* context);

template <class Body>
bool ParallelFor(int64_t tasks, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  return ParallelTasks(
      tasks,
      [](void* context, int64_t task) -> bool { return (*static_cast<Plain*>(context))(task); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// Returns the calling thread's scratch memory: one block of kScratchBytes, aligned to 64 bytes,
// which exists as long as the thread. Its contents are undefined at the start of a task. Returns
// null if memory runs out.
constexpr size_t kScratchBytes = size_t{1} << 20;
void* ThreadScratch();

}  // namespace hostgpu
