// A hash table from addresses to pointers: sessions by handle, and states by execution plan. Find
// takes no lock and is wait-free; Insert and Remove take a lock. Owns neither keys nor values.
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "base/mutex.h"

namespace ucudnn::interposer {

// `kSlots` is a power of two. At most half of the slots are used.
template <typename Value, size_t kSlots = 65536>
class AddressTable {
 public:
  // Returns null if the table does not have `key`.
  Value* Find(const void* key) const {
    if (key == nullptr) return nullptr;
    for (size_t probe = 0, slot = First(key); probe < kSlots; ++probe, ++slot) {
      const Slot& candidate = slots_[slot % kSlots];
      const void* const found = candidate.key.load(std::memory_order_acquire);
      if (found == key) return candidate.value.load(std::memory_order_acquire);
      if (found == nullptr) return nullptr;
    }
    return nullptr;
  }

  // Sets the value of `key`. Returns false if `key` is new and the table is half full, because
  // probing would take too long.
  bool Insert(const void* key, Value* value) {
    assert(key != nullptr && value != nullptr);
    MutexLock lock(mutex_);
    Erase(key);
    if (count_ >= kSlots / 2) return false;
    for (size_t slot = First(key);; ++slot) {
      Slot& candidate = slots_[slot % kSlots];
      const void* const found = candidate.key.load(std::memory_order_relaxed);
      if (found != nullptr && found != Gone()) continue;
      candidate.value.store(value, std::memory_order_release);
      candidate.key.store(key, std::memory_order_release);
      ++count_;
      return true;
    }
  }

  bool Remove(const void* key) {
    MutexLock lock(mutex_);
    return Erase(key);
  }

 private:
  struct Slot {
    std::atomic<const void*> key = nullptr;  // probing ends at null, but not at Gone()
    std::atomic<Value*> value = nullptr;
  };

  // Returns the key of a slot whose entry was removed: an address that no handle or descriptor can
  // have.
  static const void* Gone() {
    static const char gone = 0;
    return &gone;
  }
  static size_t First(const void* key) {
    static_assert(std::has_single_bit(kSlots));
    constexpr int kShift = 64 - std::countr_zero(kSlots);
    return (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9e3779b97f4a7c15u >> kShift;
  }

  bool Erase(const void* key) UCUDNN_REQUIRES(mutex_) {
    for (size_t probe = 0, slot = First(key); probe < kSlots; ++probe, ++slot) {
      Slot& candidate = slots_[slot % kSlots];
      const void* const found = candidate.key.load(std::memory_order_relaxed);
      if (found == nullptr) return false;
      if (found != key) continue;
      candidate.key.store(Gone(), std::memory_order_release);
      --count_;
      // Removed slots directly before a null slot become null, too, because no probe needs to pass
      // them.
      for (size_t back = slot + kSlots;
           slots_[(back + 1) % kSlots].key.load(std::memory_order_relaxed) == nullptr &&
           slots_[back % kSlots].key.load(std::memory_order_relaxed) == Gone();
           --back) {
        slots_[back % kSlots].key.store(nullptr, std::memory_order_release);
      }
      return true;
    }
    return false;
  }

  std::array<Slot, kSlots> slots_;
  Mutex mutex_;
  size_t count_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

}  // namespace ucudnn::interposer
