// Numbers for what runs one call after the other: a handle on a stream, or handles whose work the
// program orders. They are for the report: in the order in which calls came. Thread-safe; allocates
// nothing.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace ucudnn::interposer {

class Lanes {
 public:
  // The last number stands for all lanes that find no number of their own.
  static constexpr int kOthers = 63;

  // Bit i is set: of lane i. `owner`: the handle, or what names the handles that are ordered, which
  // are one lane whatever their `stream`. A handle made anew goes on where the last one on its
  // stream was.
  uint64_t BitOf(const void* owner, bool ordered, CUstream stream);
  // The handle is gone.
  void Leave(const void* handle);

 private:
  struct Lane {
    const void* owner = nullptr;  // null: it was destroyed
    bool ordered = false;
    CUstream stream = nullptr;
    bool operator==(const Lane&) const = default;
  };

  std::mutex mutex_;
  std::array<Lane, kOthers> lanes_;
  int count_ = 0;
};

}  // namespace ucudnn::interposer
