#include "shim/host/engines/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

namespace hostgpu {
namespace {

struct Loop {
  bool (*body)(void*, int64_t);
  void* context;
  int64_t tasks;
  std::atomic<int64_t> next{0};
  std::atomic<bool> ok{true};
  std::atomic<int> published{0};
  std::atomic<int> finished{0};
};

bool RunTask(const Loop& loop, int64_t task) try {
  return loop.body(loop.context, task);
  // Memory ran out. If this exception left the OpenMP region, the process would end.
} catch (...) {
  return false;
}

// The atomic operations order this thread's memory accesses relative to the caller's. libgomp's
// barriers do that too, but ThreadSanitizer does not see them.
__attribute__((noinline)) void RunTasks(Loop* loop) {
  (void)loop->published.load(std::memory_order_acquire);
  int64_t task;
  while ((task = loop->next.fetch_add(1, std::memory_order_relaxed)) < loop->tasks) {
    if (!RunTask(*loop, task)) loop->ok.store(false, std::memory_order_relaxed);
  }
  loop->finished.fetch_add(1, std::memory_order_release);
}

// Not instrumented by ThreadSanitizer: the region's arguments pass between threads inside libgomp,
// where ThreadSanitizer would report a race.
__attribute__((noinline, no_sanitize("thread"))) void Region(Loop* loop, int threads) {
#pragma omp parallel num_threads(threads)
  RunTasks(loop);
}

}  // namespace

int ThreadCount() {
  static const int count = std::max(1, omp_get_max_threads());
  return count;
}

ScopedThreadCount::ScopedThreadCount(int count) : previous_(omp_get_max_threads()) {
  omp_set_num_threads(count);
}

ScopedThreadCount::~ScopedThreadCount() { omp_set_num_threads(previous_); }

bool ParallelTasks(int64_t tasks, bool (*body)(void*, int64_t), void* context) {
  Loop loop{body, context, tasks};
  const int threads = static_cast<int>(std::min<int64_t>(ThreadCount(), tasks));
  loop.published.store(1, std::memory_order_release);
  if (threads <= 1) {
    // Without `serial`, oneDNN would start an OpenMP region in which the order of summation depends
    // on the number of threads.
    ScopedThreadCount serial(1);
    RunTasks(&loop);
  } else {
    Region(&loop, threads);
  }
  (void)loop.finished.load(std::memory_order_acquire);
  return loop.ok.load(std::memory_order_relaxed);
}

void* ThreadScratch() {
  struct Free {
    void operator()(void* block) const { std::free(block); }
  };
  static thread_local std::unique_ptr<void, Free> block(std::aligned_alloc(64, kScratchBytes));
  return block.get();
}

}  // namespace hostgpu
