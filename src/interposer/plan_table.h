// Values by address, found without a lock: what is decided for the application's execution plans.
// Find is wait-free; changes take a lock. Holds pointers, owns nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace ucudnn::interposer {

template <typename Value, size_t kSlots = 65536>  // a power of two
class PlanTable {
 public:
  // Null when there is none.
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

  // False when the table is half full: probes would become long.
  bool Insert(const void* key, Value* value) {
    std::lock_guard lock(mutex_);
    if (count_ >= kSlots / 2) return false;
    Remove(key, lock);
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
    std::lock_guard lock(mutex_);
    return Remove(key, lock);
  }

 private:
  struct Slot {
    std::atomic<const void*> key = nullptr;  // null: never used, or again as if never: ends a probe
    std::atomic<Value*> value = nullptr;
  };

  // The address of no descriptor.
  static const void* Gone() {
    static const char gone = 0;
    return &gone;
  }
  static size_t First(const void* key) {
    constexpr int kShift = 64 - 16;
    static_assert(kSlots == 65536);
    return (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9e3779b97f4a7c15u >> kShift;
  }

  bool Remove(const void* key, const std::lock_guard<std::mutex>&) {
    for (size_t probe = 0, slot = First(key); probe < kSlots; ++probe, ++slot) {
      Slot& candidate = slots_[slot % kSlots];
      const void* const found = candidate.key.load(std::memory_order_relaxed);
      if (found == nullptr) return false;
      if (found != key) continue;
      candidate.key.store(Gone(), std::memory_order_release);
      --count_;
      // In front of the end of all probes it ends them as well: nothing lies behind it.
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
  std::mutex mutex_;
  size_t count_ = 0;
};

}  // namespace ucudnn::interposer
