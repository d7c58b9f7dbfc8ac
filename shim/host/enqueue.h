// Enqueues C++ function objects of a stand-in library on streams of the stand-in driver.
#pragma once

#include <functional>
#include <initializer_list>
#include <utility>

#include "shim/host/hostgpu.h"

namespace hostgpu {

// Calls hostgpuEnqueue with `work`, which must not throw. `uses` becomes hostgpuWork::uses.
inline bool EnqueueOn(void* stream, std::initializer_list<const void*> uses,
                      std::function<void()> work) {
  using Task = std::function<void()>;
  const auto run = [](void* task) { (*static_cast<const Task*>(task))(); };
  const auto release = [](void* task) { delete static_cast<Task*>(task); };
  const hostgpuWork enqueued{run, release, new Task(std::move(work)), uses.begin(), uses.size()};
  return hostgpuEnqueue(stream, &enqueued) != 0;
}

}  // namespace hostgpu
