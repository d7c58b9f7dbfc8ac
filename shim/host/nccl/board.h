// The memory that the ranks of one communicator share: a roll, a seat with a bell for each rank,
// and for each pair of ranks and each kind of message a channel that offers one message at a time.
// The data itself stays in place: the receiver reads it in the sender's device memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shim/host/nccl/api.h"
#include "shim/host/nccl/file.h"

namespace hostgpu::nccl {

constexpr int kMaxRanks = 128;
constexpr int64_t kLookNs = 100'000'000;  // between checks of the awaited processes

// ncclSend and ncclRecv are matched among themselves, and collectives among themselves.
enum class Kind { kPointToPoint, kCollective };
constexpr int kKinds = 2;

struct Message {
  uint64_t offset = 0;  // in the file of the sender's device memory
  uint64_t bytes = 0;
  uint64_t signature = 0;  // arguments that both sides must share, beside the bytes
  int64_t ready_ns = 0;    // time since which the sender waits (CLOCK_MONOTONIC)
};

struct alignas(64) Channel {
  std::atomic<uint64_t> offered;  // number of messages so far
  // Number of messages read or refused; if it equals `offered`, `message` is free.
  std::atomic<uint64_t> taken;
  std::atomic<uint64_t> refused;  // number of a message that the receiver refused, else 0
  Message message;                // written by the sender before `offered` rises
  int64_t free_at_ns;  // written by the receiver: earlier messages occupy the way until then
};

enum class Presence : uint32_t {
  kHere,
  kLeft,    // destroyed after all its operations
  kFailed,  // aborted or failed: it sends nothing more
};

// While the communicator is made: the number of ranks by the first one, and why making it fails.
enum class Refusal : uint32_t { kNone, kBeingTold, kTold };
struct Roll {
  std::atomic<int32_t> ranks;
  std::atomic<Refusal> refusal;
  int32_t result;  // an ncclResult_t; like `reason`, it is written before `refusal` is kTold
  char reason[192];
};

// The rank on a seat.
struct Member {
  uint64_t process;   // drawn at random by each process
  int32_t device;     // the process's number of the device
  SharedFile memory;  // of the device
};

enum class SeatState : uint32_t {
  kEmpty,
  kSeated,  // `member` is set
  kReady,   // it can access all ranks' memory
};

struct alignas(64) Seat {
  std::atomic<uint32_t> bell;  // a futex that changes whenever something has changed for this rank
  std::atomic<uint32_t> sleepers;  // threads that wait for the bell
  std::atomic<Presence> presence;
  std::atomic<int32_t> pid;  // process that took the seat; 0 if the seat is free
  std::atomic<SeatState> state;
  Member member;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class Board {
 public:
  static size_t Bytes(int ranks);

  Board() = default;
  // Empty if the file has no room for `ranks`. Thread-safe once made.
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
