// The memory that the ranks of one communicator share. It has a roll, a seat with a bell for each
// rank, and channels: one for each kind of message and each ordered pair of ranks. A channel holds
// one message at a time. Only descriptions of messages are in this memory; the receiver reads the
// data in the sender's device memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shim/host/nccl/api.h"
#include "shim/host/nccl/file.h"

namespace hostgpu::nccl {

constexpr int kMaxRanks = 128;
// The time between two checks whether the awaited processes still run: 100 ms.
constexpr int64_t kLookNs = 100'000'000;

// ncclSend matches ncclRecv, and a collective call matches collective calls; the two kinds use
// different channels.
enum class Kind { kPointToPoint, kCollective };
constexpr int kKinds = 2;

struct Message {
  uint64_t offset = 0;  // offset in the file of the sender's device memory
  uint64_t bytes = 0;
  // Encodes the arguments that must be equal for sender and receiver, other than `bytes`.
  uint64_t signature = 0;
  int64_t ready_ns = 0;  // when the sender began to wait (CLOCK_MONOTONIC)
};

struct alignas(64) Channel {
  std::atomic<uint64_t> offered;  // number of messages that the sender has offered
  // Number of messages that the receiver has read or refused. If it equals `offered`, the sender
  // may write `message`.
  std::atomic<uint64_t> taken;
  // Number of the message that the receiver refused; 0 if it refused none.
  std::atomic<uint64_t> refused;
  Message message;     // the sender writes it before it increases `offered`
  int64_t free_at_ns;  // when the transfer of all earlier messages ends; the receiver writes it
};

enum class Presence : uint32_t {
  kHere,
  kLeft,    // destroyed after all its operations were done
  kFailed,  // aborted or failed: it sends no more messages
};

// States of a refusal to make the communicator: none, a rank is writing the reason, or the reason
// is written.
enum class Refusal : uint32_t { kNone, kBeingTold, kTold };
// The part of the board that the ranks use while the communicator is made. The first rank that
// takes a seat sets `ranks`. If making the communicator fails, `result` and `reason` say why.
struct Roll {
  std::atomic<int32_t> ranks;
  std::atomic<Refusal> refusal;
  int32_t result;  // an ncclResult_t; valid, like `reason`, when `refusal` is kTold
  char reason[192];
};

// Describes the rank that has a seat.
struct Member {
  uint64_t process;   // random number that identifies the process
  int32_t device;     // the device's number in that process
  SharedFile memory;  // the file of the device's memory
};

enum class SeatState : uint32_t {
  kEmpty,
  kSeated,  // `member` is set
  kReady,   // this rank has mapped all ranks' memory
};

struct alignas(64) Seat {
  // A futex. Its value changes with each change of the board that concerns this rank.
  std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleepers;  // number of threads that wait for the bell
  std::atomic<Presence> presence;
  std::atomic<int32_t> pid;  // the process that took the seat; 0 if the seat is free
  std::atomic<SeatState> state;
  Member member;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class Board {
 public:
  static size_t Bytes(int ranks);

  Board() = default;
  // The board is empty if the file is too small for `ranks`. Thread-safe after construction.
  Board(const File& file, int ranks);
  explicit operator bool() const { return memory_.data() != nullptr; }

  Roll& roll() const { return *reinterpret_cast<Roll*>(memory_.data()); }
  Seat& seat(int rank) const { return reinterpret_cast<Seat*>(memory_.data() + kRollBytes)[rank]; }
  Channel& channel(Kind kind, int from, int to) const {
    auto* const channels =
        reinterpret_cast<Channel*>(memory_.data() + kRollBytes + sizeof(Seat) * ranks_);
    return channels[(static_cast<int>(kind) * ranks_ + from) * ranks_ + to];
  }

  void Ring(int rank) const;
  void RingAll() const;
  // Returns when the rank's bell differs from `seen`, or at `deadline_ns`.
  void AwaitBell(int rank, uint32_t seen, int64_t deadline_ns) const;

 private:
  static constexpr size_t kRollBytes = 256;
  static_assert(sizeof(Roll) <= kRollBytes && kRollBytes % alignof(Seat) == 0);
  Mapping memory_;
  int ranks_ = 0;
};

inline std::string NameOf(int rank) { return "rank " + std::to_string(rank); }

int64_t NowNs();  // CLOCK_MONOTONIC, which is the same for all processes

}  // namespace hostgpu::nccl
