// The user's workspace limit for each kernel: a given size, a part of the free memory, or none.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>

#include "cuda/driver.h"
#include "options/options.h"
#include "planning/decision/facts.h"

namespace ucudnn::interposer {

using planning::kNoLimit;

class WorkspaceLimit {
 public:
  WorkspaceLimit(const Options& options, const cuda::Driver* driver)
      : driver_(driver),
        limit_(options.workspace_limit.value_or(kNoLimit)),
        is_auto_(options.workspace_limit_auto) {}

  // Sets the limit for kernels that are asked about or first called from now on.
  void Set(size_t bytes);
  // Returns the limit in bytes; kNoLimit if there is none. A limit from free memory is computed at
  // the first call, for the device of `context`, and then holds for all devices.
  size_t Of(CUcontext context);
  // Returns the size that was set; kNoLimit if the limit is computed from free memory.
  size_t set_bytes() const;
  bool is_auto() const { return is_auto_; }
  // If the limit was computed from free memory and exceeds `bytes`, lowers it to `bytes`.
  void FallTo(size_t bytes);

 private:
  const cuda::Driver* const driver_;
  std::atomic<size_t> limit_;
  std::atomic<bool> is_auto_;                  // true: auto_limit_ holds, not limit_
  std::atomic<size_t> auto_limit_ = kNoLimit;  // kNoLimit: not computed yet
};

}  // namespace ucudnn::interposer
