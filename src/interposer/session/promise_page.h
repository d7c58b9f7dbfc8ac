// The state that all decisions about legacy calls of one problem and algorithm share, on all
// handles of a platform. PromiseBook owns the pages and never changes their addresses. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace ucudnn::interposer {

struct PromisePage {
  uint64_t version() const { return latest.load(std::memory_order_acquire); }

  // Increases with every new promise, in PromiseBook::Add only. A decision that was made under an
  // earlier version may not know the latest promise.
  std::atomic<uint64_t> latest = 0;
  // Number of calls on all handles. A call whose decision is final is not counted.
  std::atomic<long> calls = 0;
  // True once a piece failed or a plan was found wrong. From then on no plan divides, on any
  // handle, if an undivided engine keeps the promise.
  std::shared_ptr<std::atomic<bool>> failed = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ucudnn::interposer
