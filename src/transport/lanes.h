// The words that ranks of a loopback channel share beside the data: a lane for each ordered pair of
// ranks. A lane has slots, and a slot has two words, which are 0 at first and again behind each
// whole message, so that a graph that holds a message can be launched any number of times:
//
//   the sender's stream      waits for busy == 0, writes busy = 1, copies the message into the
//                            slot, writes bytes = SizeWord(its size)
//   the receiver's stream    waits for bytes != 0, has the host take the message out of the slot
//                            and store bytes = 0, writes busy = 0, copies it to the device
//
// A slot holds one message at a time, and both ranks use the slots of a lane in the same order, so
// the receiver takes the message that it expects. Uncaptured messages use the first kSlotsInTurn
// slots in turn, as each host counts those that it has enqueued. Captured ones all use the last
// slot, because no host knows the order in which graphs are launched.
//
// An abort sets `aborted` and then, again and again, sets all words to values that let streams pass
// (it raises them). From then on words mean nothing. The order of these writes ensures:
// - A receiver that passes because a word was raised takes nothing: it reads `bytes` and after
//   that `aborted`. If `bytes` was raised, `aborted` had been set before.
// - A sender that passes because a word was raised may rewrite a slot that is being taken. The
//   receiver therefore reads `aborted` once more when it has copied the message, by an addition
//   that cannot come before its reads of the slot. If the slot was rewritten, words had been raised
//   before, and `aborted` is set.
// - Streams of ranks that do not know of the abort yet write 1 and 0 after words were raised; the
//   next time that words are raised lets the streams pass that this stops. Each rank that knows
//   of the abort raises words until its own streams can wait no more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ucudnn::transport {

inline constexpr uint32_t kSlotsInTurn = 2;
inline constexpr uint32_t kCapturedSlot = kSlotsInTurn;
inline constexpr uint32_t kSlots = kSlotsInTurn + 1;
inline constexpr size_t kCacheLine = 64;

// Returns the value of `bytes` in a slot for a message of `bytes` bytes, at least one: the size
// modulo 2^32 - 1, with 2^32 - 1 in place of 0.
inline uint32_t SizeWord(size_t bytes) {
  return static_cast<uint32_t>(1 + (bytes - 1) % UINT32_MAX);
}

// Words that streams write have cache lines of their own.
struct SlotWords {
  alignas(kCacheLine) std::atomic<uint32_t> busy;   // 0: the sender may fill the slot
  alignas(kCacheLine) std::atomic<uint32_t> bytes;  // 0: the slot is empty
};
struct Lane {
  SlotWords slots[kSlots];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

class Lanes {
 public:
  static size_t Bytes(int size) {
    return kCacheLine * (1 + static_cast<size_t>(size)) + sizeof(Lane) * size * size;
  }

  Lanes(void* memory, int size) : memory_(static_cast<char*>(memory)), size_(size) {}

  // 0, or the rank that aborted first, counted from 1. It is set before any word is raised.
  std::atomic<uint32_t>& aborted() const { return WordOfLine(0); }

  // 1 while a stream of the rank is in a captured call.
  std::atomic<uint32_t>& replaying(int rank) const { return WordOfLine(1 + rank); }

  Lane& Between(int sender, int receiver) const {
    return reinterpret_cast<Lane*>(memory_ + kCacheLine * (1 + size_))[sender * size_ + receiver];
  }

  // Sets all words to values for which streams wait, until a stream writes another value. REQUIRES:
  // aborted.
  void RaiseAll() const {
    for (int lane = 0; lane < size_ * size_; ++lane) {
      for (SlotWords& words : Between(0, lane).slots) {
        words.busy = 0;
        words.bytes = UINT32_MAX;
      }
    }
  }

 private:
  std::atomic<uint32_t>& WordOfLine(int line) const {
    return *reinterpret_cast<std::atomic<uint32_t>*>(memory_ + kCacheLine * line);
  }

  char* memory_;
  int size_;
};

}  // namespace ucudnn::transport
