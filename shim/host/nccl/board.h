// The memory that the ranks of one communicator share: for each rank a seat with a bell, for each
// pair of ranks and each kind of message a channel on which one message at a time is offered. The
// data itself stays where it is: who receives reads it in the sender's device memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/host/nccl/api.h"
#include "shim/host/nccl/file.h"

namespace hostgpu::nccl {

constexpr int kMaxRanks = 128;  // their files fit into one message of a socket

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

// What ncclCommSplit shares, in rounds that every rank takes part in.
struct SplitSeat {
  std::atomic<uint64_t> told;   // rounds whose color and key are here
  std::atomic<uint64_t> named;  // rounds whose id is here, where this rank leads its color
  std::atomic<uint64_t> read;   // rounds of which this rank has read what it wanted
  int32_t color;
  int32_t key;
  ncclUniqueId id;
};

struct alignas(64) Seat {
  std::atomic<uint32_t> bell;      // a futex: changes whenever something changed for this rank
  std::atomic<uint32_t> sleepers;  // threads that wait for it
  std::atomic<Presence> presence;
  SplitSeat split;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class Board {
 public:
  static size_t Bytes(int ranks);

  Board() = default;
  // Empty when the file is not one for `ranks`. Thread-safe from then on.
  Board(const File& file, int ranks);
  explicit operator bool() const { return memory_.data() != nullptr; }

  Seat& seat(int rank) const { return reinterpret_cast<Seat*>(memory_.data())[rank]; }
  Channel& channel(Kind kind, int from, int to) const {
    auto* const channels = reinterpret_cast<Channel*>(memory_.data() + sizeof(Seat) * ranks_);
    return channels[(static_cast<int>(kind) * ranks_ + from) * ranks_ + to];
  }

  void Ring(int rank) const;
  void RingAll() const;
  // Waits until the rank's bell is no longer `seen`, or until `deadline_ns`.
  void AwaitBell(int rank, uint32_t seen, int64_t deadline_ns) const;

 private:
  Mapping memory_;
  int ranks_ = 0;
};

int64_t NowNs();  // CLOCK_MONOTONIC, one clock for all processes

}  // namespace hostgpu::nccl
