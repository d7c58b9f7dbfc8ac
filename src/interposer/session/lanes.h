// Numbers lanes for the report, in the order of their first calls. A lane is what runs one call
// after the other: a handle on a stream, or handles whose work the program orders. Thread-safe;
// allocates nothing.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "base/mutex.h"

namespace ucudnn::interposer {

class Lanes {
 public:
  // The number of all lanes that come after so many others.
  static constexpr int kOthers = 63;

  // The bit of the lane's number. `owner` is the handle, or names the handles that the program
  // orders (`ordered`): those are one lane on whatever stream. A new handle takes the number of a
  // destroyed one on the same stream.
  uint64_t BitOf(const void* owner, bool ordered, CUstream stream);
  // Call when `handle` is destroyed.
  void Leave(const void* handle);

 private:
  struct Lane {
    const void* owner = nullptr;  // null: it was destroyed
    bool ordered = false;
    CUstream stream = nullptr;
    bool operator==(const Lane&) const = default;
  };

  Mutex mutex_;
  std::array<Lane, kOthers> lanes_ UCUDNN_GUARDED_BY(mutex_);
  int count_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

}  // namespace ucudnn::interposer
