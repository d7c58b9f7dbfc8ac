// What the ranks of a loopback channel share beside the data: a lane for each ordered pair of
// ranks. Its messages are numbered from 1, modulo 2^32; message i of a lane lies in slot i %
// kSlots.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ucudnn::transport {

inline constexpr uint32_t kSlots = 2;
inline constexpr size_t kCacheLine = 64;

// All zero at first. Numbers that streams write have lines of their own.
struct Lane {
  alignas(kCacheLine) std::atomic<uint32_t> sent;   // the sender's stream: in its slot
  alignas(kCacheLine) std::atomic<uint32_t> taken;  // the receiver's: its slot is free again
  // The sender's stream, before `sent`: the message's size modulo 2^32.
  alignas(kCacheLine) std::atomic<uint32_t> bytes[kSlots];
  // The latest numbers that the hosts have enqueued: no stream waits for a later one.
  alignas(kCacheLine) std::atomic<uint32_t> sends;
  std::atomic<uint32_t> receives;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

class Lanes {
 public:
  static size_t Bytes(int size) { return kCacheLine + sizeof(Lane) * size * size; }

  Lanes(void* memory, int size) : memory_(static_cast<char*>(memory)), size_(size) {}

  // 0, or who aborted first, counted from 1. Set before any flag is raised.
  std::atomic<uint32_t>& aborted() const {
    return *reinterpret_cast<std::atomic<uint32_t>*>(memory_);
  }

  Lane& Between(int sender, int receiver) const {
    return reinterpret_cast<Lane*>(memory_ + kCacheLine)[sender * size_ + receiver];
  }

  // Lets everything pass that any stream waits for, until a stream writes an earlier number.
  // REQUIRES: aborted.
  void RaiseAll() const {
    constexpr uint32_t kFar = uint32_t{1} << 30;  // waiting is cyclic: beyond all that is enqueued
    for (int lane = 0; lane < size_ * size_; ++lane) {
      Lane& raised = Between(0, lane);
      raised.sent = raised.receives + kFar;
      raised.taken = raised.sends + kFar;
    }
  }

 private:
  char* memory_;
  int size_;
};

}  // namespace ucudnn::transport
