// The words by which the ranks of a loopback channel synchronise. The words and the data lie in
// different segments of shared memory. There is a lane for each ordered pair of ranks. A lane has
// slots, and a slot has two words. Both words are 0 before and after each message, so that a graph
// that contains a message can be launched any number of times:
//
//   the sender's stream      waits for busy == 0, writes busy = 1, copies the message into the
//   slot, writes bytes = SizeWord(its size)
//   the receiver's stream    waits for bytes != 0, has the host take the message out of the slot
//   and store bytes = 0, writes busy = 0, copies the message to the device
//
// A slot holds one message at a time, and both ranks use the slots of a lane in the same order, so
// the receiver takes the message that it expects. Uncaptured messages use the first kSlotsInTurn
// slots in turn; each host counts these messages when it enqueues them. Captured messages all use
// the last slot, because no host knows in which order graphs are launched.
//
// An abort sets `aborted` and then, again and again, "raises" all words: it sets them to values
// that let streams pass. From then on the words carry no information. The order of these writes
// ensures three things:
// - A receiver that passes because a word was raised takes no message: it reads `bytes` and then
//   `aborted`. If `bytes` was raised, `aborted` had been set before.
// - A sender that passes because a word was raised may rewrite a slot from which the receiver is
//   copying. So the receiver reads `aborted` again after the copy, by an addition that cannot be
//   ordered before its reads of the slot. If the slot was rewritten, words had been raised before,
//   so `aborted` is set.
// - As long as a rank does not know of the abort, its streams write 1 and 0 to words that were
//   raised. Streams that wait because of these writes pass at the next raising. Each rank that
//   knows of the abort raises words until its own streams can wait no more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ucudnn::transport {

inline constexpr uint32_t kSlotsInTurn = 2;
inline constexpr uint32_t kCapturedSlot = kSlotsInTurn;
inline constexpr uint32_t kSlots = kSlotsInTurn + 1;
inline constexpr size_t kCacheLine = 64;

// Returns the value of the word `bytes` for a message of `bytes` >= 1 bytes: the size modulo 2^32 -
// 1, or 2^32 - 1 if that is 0.
inline uint32_t SizeWord(size_t bytes) {
  return static_cast<uint32_t>(1 + (bytes - 1) % UINT32_MAX);
}

// Each word that streams write has its own cache line.
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

  // 0, or the number of the rank that aborted first, plus 1. Set before any word is raised.
  std::atomic<uint32_t>& aborted() const { return WordOfLine(0); }

  // 1 while a stream of the rank runs a captured call; otherwise 0.
  std::atomic<uint32_t>& replaying(int rank) const { return WordOfLine(1 + rank); }

  Lane& Between(int sender, int receiver) const {
    return reinterpret_cast<Lane*>(memory_ + kCacheLine * (1 + size_))[sender * size_ + receiver];
  }

  // Sets all words to the values for which streams wait. Streams may overwrite the words
  // afterwards. REQUIRES: `aborted` is set.
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
