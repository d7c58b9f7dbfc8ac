// Work of a stand-in library on a stream of the stand-in driver.
#pragma once

#include <functional>
#include <initializer_list>
#include <utility>

#include "shim/host/hostgpu.h"

namespace hostgpu {

// Calls hostgpuEnqueue for a function object, which must not throw. `uses` has the meaning that it
// has in hostgpuWork.
inline bool EnqueueOn(void* stream, std::initializer_list<const void*> uses,
                      std::function<void()> work) {
  using Task = std::function<void()>;
  const auto run = [](void* task) { (*static_cast<const Task*>(task))(); };
  const auto release = [](void* task) { delete static_cast<Task*>(task); };
  const hostgpuWork enqueued{run, release, new Task(std::move(work)), uses.begin(), uses.size()};
  return hostgpuEnqueue(stream, &enqueued) != 0;
}

}  // namespace hostgpu
