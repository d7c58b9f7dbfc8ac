// Numbers lanes for the report, in the order of their first calls. A lane runs one call after the
// other: a handle on a stream, or handles whose work the program orders. Thread-safe; allocates
// nothing.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "base/mutex.h"

namespace ucudnn::interposer {

class Lanes {
 public:
  // The number that all lanes after the first kOthers share.
  static constexpr int kOthers = 63;

  // Returns the bit of the lane's number. `owner` is the handle or, if `ordered`, the name of a
  // lane of several handles that the program orders; such a lane is the same on all streams. A new
  // handle takes over the number of a destroyed handle on the same stream.
  uint64_t BitOf(const void* owner, bool ordered, CUstream stream);
  // To be called with each handle that is destroyed, and with the name of an ordered lane when the
  // lane's last handle is destroyed.
  void Leave(const void* handle);

 private:
  struct Lane {
    const void* owner = nullptr;  // null: the handle or lane was destroyed
    bool ordered = false;
    CUstream stream = nullptr;
    bool operator==(const Lane&) const = default;
  };

  Mutex mutex_;
  std::array<Lane, kOthers> lanes_ UCUDNN_GUARDED_BY(mutex_);
  int count_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

}  // namespace ucudnn::interposer
