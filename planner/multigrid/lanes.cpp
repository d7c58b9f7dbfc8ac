#include "planner/multigrid/lanes.h"

#include <exception>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace ucudnn::multigrid {
namespace {

// Returns the tasks of lane `lane` of `lanes`: from the first number up to, not including, the
// second.
std::pair<int, int> TasksOf(int lane, int lanes, int tasks) {
  return {static_cast<int>(int64_t{tasks} * lane / lanes),
          static_cast<int>(int64_t{tasks} * (lane + 1) / lanes)};
}

}  // namespace

struct Lanes::Pool {
  Mutex mutex;
  Condition changed;
  uint64_t round UCUDNN_GUARDED_BY(mutex) = 0;
  bool ends UCUDNN_GUARDED_BY(mutex) = false;
  int running UCUDNN_GUARDED_BY(mutex) = 0;
  // The work of one call of ForEach. It is written before the threads are told to begin.
  int tasks = 0;
  const LaneWork* work = nullptr;
  std::vector<Status> results;       // by lane
  std::vector<std::thread> threads;  // thread i runs lane i + 1

  void Do(int lane, int lanes) {
    results[lane] = Status::Ok();
    const auto [begin, end] = TasksOf(lane, lanes, tasks);
    for (int task = begin; task < end && results[lane].ok(); ++task) {
      results[lane] = (*work)(task, lane);
    }
  }

  void Serve(int lane, int lanes) {
    uint64_t done = 0;
    while (true) {
      {
        MutexLock lock(mutex);
        while (round == done && !ends) changed.Wait(mutex);
        if (ends) return;
        done = round;
      }
      Do(lane, lanes);
      MutexLock lock(mutex);
      if (--running == 0) changed.NotifyAll();
    }
  }

  void End() {
    {
      MutexLock lock(mutex);
      ends = true;
      changed.NotifyAll();
    }
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

Lanes::Lanes(int count, std::unique_ptr<Pool> pool) : count_(count), pool_(std::move(pool)) {}
Lanes::Lanes(Lanes&&) noexcept = default;
Lanes& Lanes::operator=(Lanes&& other) noexcept {
  std::swap(count_, other.count_);
  std::swap(pool_, other.pool_);
  return *this;
}
Lanes::~Lanes() {
  if (pool_) pool_->End();
}

Result<Lanes> Lanes::Start(int count, Threads threads) {
  if (count < 1) return Status::Error(std::to_string(count) + " lanes; 1 and more are expected");
  if (count == 1 || threads == Threads::kCallersAlone) return Lanes(count, nullptr);
  auto pool = std::make_unique<Pool>();
  pool->results.resize(count);
  pool->threads.reserve(count - 1);
  try {
    for (int lane = 1; lane < count; ++lane) {
      pool->threads.emplace_back([&pool = *pool, lane, count] { pool.Serve(lane, count); });
    }
  } catch (const std::exception& error) {
    const size_t lane = pool->threads.size() + 1;
    pool->End();
    return Status::Error("the system gives no thread for lane " + std::to_string(lane) + " of " +
                         std::to_string(count) + ": " + error.what());
  }
  return Lanes(count, std::move(pool));
}

Status Lanes::ForEach(int tasks, LaneWork work) {
  if (tasks == 1) return work(0, 0);
  if (!pool_) {
    for (int lane = 0; lane < count_; ++lane) {
      const auto [begin, end] = TasksOf(lane, count_, tasks);
      for (int task = begin; task < end; ++task) {
        UCUDNN_RETURN_IF_ERROR(work(task, lane));
      }
    }
    return Status::Ok();
  }
  Pool& pool = *pool_;
  pool.tasks = tasks;
  pool.work = &work;
  {
    MutexLock lock(pool.mutex);
    ++pool.round;
    pool.running = count_ - 1;
    pool.changed.NotifyAll();
  }
  pool.Do(0, count_);
  {
    MutexLock lock(pool.mutex);
    while (pool.running > 0) pool.changed.Wait(pool.mutex);
  }
  for (Status& result : pool.results) UCUDNN_RETURN_IF_ERROR(std::move(result));
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
