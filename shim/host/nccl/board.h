// The memory that the ranks of one communicator share: a roll, for each rank a seat with a bell,
// for each pair of ranks and each kind of message a channel on which one message at a time is
// offered. The data itself stays where it is: who receives reads it in the sender's device memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shim/host/nccl/api.h"
#include "shim/host/nccl/file.h"

namespace hostgpu::nccl {

constexpr int kMaxRanks = 128;
constexpr int64_t kLookNs = 100'000'000;  // between looks at the processes waited for

// ncclSend and ncclRecv are matched among themselves, and collectives among themselves.
enum class Kind { kPointToPoint, kCollective };
constexpr int kKinds = 2;

struct Message {
  uint64_t offset = 0;  // in the file of the sender's device memory
  uint64_t bytes = 0;
  uint64_t signature = 0;  // what both sides must have been asked for, beside the bytes
  int64_t ready_ns = 0;    // since when the sender waits (CLOCK_MONOTONIC)
};

struct alignas(64) Channel {
  std::atomic<uint64_t> offered;  // messages so far
  std::atomic<uint64_t> taken;    // of them read, or refused; an equal number frees `message`
  std::atomic<uint64_t> refused;  // the number of one that the receiver did not want, else 0
  Message message;                // written by the sender before `offered` rises
  int64_t free_at_ns;             // the receiver's: until when earlier messages occupy the way
};

enum class Presence : uint32_t {
  kHere,
  kLeft,    // destroyed after all its operations
  kFailed,  // aborted, or it met an error: nothing more comes from it
};

// While the communicator is made: how many ranks the first one said there are, and why it comes to
// nothing.
enum class Refusal : uint32_t { kNone, kBeingTold, kTold };
struct Roll {
  std::atomic<int32_t> ranks;
  std::atomic<Refusal> refusal;
  int32_t result;  // an ncclResult_t, written as `reason` is before `refusal` is kTold
  char reason[192];
};

// Who sits on a seat.
struct Member {
  uint64_t process;   // drawn at random by each process
  int32_t device;     // its process's number of it
  SharedFile memory;  // of the device
};

enum class SeatState : uint32_t {
  kEmpty,
  kSeated,  // `member` is here
  kReady,   // it has all ranks' memory in reach
};

struct alignas(64) Seat {
  std::atomic<uint32_t> bell;      // a futex: changes whenever something changed for this rank
  std::atomic<uint32_t> sleepers;  // threads that wait for it
  std::atomic<Presence> presence;
  std::atomic<int32_t> pid;  // of whoever took the seat; 0: nobody
  std::atomic<SeatState> state;
  Member member;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class Board {
 public:
  static size_t Bytes(int ranks);

  Board() = default;
  // Empty when the file has no room for `ranks`. Thread-safe from then on.
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
  // Waits until the rank's bell is no longer `seen`, or until `deadline_ns`.
  void AwaitBell(int rank, uint32_t seen, int64_t deadline_ns) const;

 private:
  static constexpr size_t kRollBytes = 256;
  static_assert(sizeof(Roll) <= kRollBytes && kRollBytes % alignof(Seat) == 0);
  Mapping memory_;
  int ranks_ = 0;
};

inline std::string NameOf(int rank) { return "rank " + std::to_string(rank); }

int64_t NowNs();  // CLOCK_MONOTONIC, one clock for all processes

}  // namespace hostgpu::nccl
