// The state that all decisions about legacy calls of one problem and algorithm share, on all
// handles of a platform. PromiseBook owns it and keeps its address. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace ucudnn::interposer {

struct PromisePage {
  uint64_t version() const { return latest.load(std::memory_order_acquire); }

  // Rises with every new promise, by PromiseBook::Add alone: a decision taken under an earlier
  // version may not know it.
  std::atomic<uint64_t> latest = 0;
  // Calls on all handles, counted only until the last decision about them is final.
  std::atomic<long> calls = 0;
  // True once a piece failed or a plan was found wrong: no plan divides again, on any handle, if an
  // undivided engine keeps the promise.
  std::shared_ptr<std::atomic<bool>> failed = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace ucudnn::interposer
