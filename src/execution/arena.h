// Workspace that the library owns, for calls whose callers were promised to bring none. An arena
// belongs to one context and hands out segments of it, each to one owner: what enqueues on one
// stream, one call after the other. Neither two streams, nor two threads that enqueue on one, ever
// use the same bytes at once. Thread-safe.
//
// First it lends: a loan is of one call, and memory of loans that are over is given back where
// another owner lacks it. Once what is needed is known it is fixed: then an owner may remember its
// segment, which stays where it is until the owner takes a larger one.
//
// Nothing here waits for the device, which may run kernels that wait for work which this thread has
// yet to enqueue: memory comes from a pool, and goes back to it when its last work is over. Where
// the device has no pools, what waits is left until the application waits for the device itself: it
// destroys a handle.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/status.h"
#include "cuda/driver.h"
#include "cuda/resources.h"

namespace ucudnn::execution {

// What enqueues. A stream is known by its id: its address may be another's after it is destroyed,
// while its work still runs.
struct ArenaOwner {
  const void* handle = nullptr;  // null: it was destroyed
  uint64_t stream = 0;
  std::thread::id thread = {};  // of CU_STREAM_PER_THREAD, which is another in each
  int kernel = -1;              // set: a segment for this kernel alone
  bool capturable = false;      // the legacy default stream is not
  bool operator==(const ArenaOwner&) const = default;
};

// None where the driver does not tell the stream's id.
std::optional<ArenaOwner> OwnerOf(const cuda::Driver& driver, const void* handle, CUstream stream);

class Arena {
 public:
  struct Segment {
    void* data = nullptr;  // null: none
    size_t bytes = 0;
  };
  struct Need {
    ArenaOwner owner;
    size_t bytes = 0;
  };

  // All segments together never exceed `limit_bytes`. `driver` outlives the object.
  Arena(const cuda::Driver& driver, CUcontext context, size_t limit_bytes)
      : driver_(driver), context_(context), limit_bytes_(limit_bytes) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // What Borrow or Take could give `owner`: now, or once what it has is over.
  size_t Available(const ArenaOwner& owner);
  // So much of the limit is not to be given to anyone for now.
  void Keep(size_t bytes);

  // At least `bytes` for one call, which must be given back; none while others use the memory, or
  // where it is out. May allocate, so not for a stream that is captured.
  Segment Borrow(const ArenaOwner& owner, size_t bytes);
  // After the call enqueued its work on `stream`.
  void GiveBack(const Segment& segment, CUstream stream);

  enum class Readiness { kReady, kBusy, kShort };
  // Sees to it that there is a segment for each of `needs`, beside what captures have: all others
  // are given back, but for what lost_bytes() counts. kBusy: some are still in use, and nothing was
  // changed for it. kShort: the device's memory is out; none of the missing was allocated.
  Readiness Prepare(std::span<const Need> needs);
  // Ends lending: from now on Take serves.
  void Fix();

  // At least `bytes` that stay `owner`'s, which is about to enqueue on `stream`; none where the
  // limit or the memory is out. What the owner took before is too small, and given up: others get
  // it once the work that `stream` has by now is over. Where only that is waited for, the owner's
  // later calls wait, too, and take as much: else smaller ones would take the room again for ever.
  // May allocate.
  Segment Take(const ArenaOwner& owner, size_t bytes, CUstream stream);
  // Rises when an owner gives up what it may remember.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // Sees to it that a segment of `bytes` is ready for a capture to come, where there is room.
  bool ReserveForCapture(size_t bytes);
  // For calls of `owner` inside one capture, whose graph may run at any time, beside any other and
  // as long as the process lives: never another's. Allocates nothing: none where none is ready.
  Segment TakeForCapture(uint64_t capture, const ArenaOwner& owner, size_t bytes);

  // `handle` enqueues no more: what it has is nobody's. Once the device was waited for, which
  // cudnnDestroy does, Waited frees what was nobody's when Leave said `leave`; and where no handle
  // is left by then, which it says, all but what captures use.
  uint64_t Leave(const void* handle);
  bool Waited(uint64_t leave);
  // Whether `owner` has a segment of at least `bytes`, which Take would give it again.
  bool Has(const ArenaOwner& owner, size_t bytes) const;
  // How many segments are `kernel`'s, whoever's.
  size_t CopiesOf(int kernel) const;

  // An allocation for calls failed: as much is not tried again, and nothing is Available that has
  // yet to be allocated.
  bool short_of_memory();
  size_t bytes() const;
  // Of those, what captures have, or are to have.
  size_t capture_bytes() const;
  // Of the limit, what was neither allocated nor is kept.
  size_t left() const;
  // Of `bytes`, what nobody can tell when it will be free.
  size_t lost_bytes() const;

 private:
  enum class Use { kReady, kStream, kCapture };
  struct Block {
    Segment segment;
    ArenaOwner owner;
    Use use = Use::kReady;
    uint64_t capture = 0;
    CUevent over = nullptr;  // recorded behind the last loan, or when it was given up; null: never
    int loans = 0;           // not yet given back
    bool lost = false;       // nothing tells when its last work is over
    bool given_up = false;   // its owner has a larger one
    bool prepared = false;   // for its owner: not given back for another's sake
    uint64_t left = 0;       // set: its owner's Leave, since when it is nobody's
  };
  Block* Allocate(size_t bytes, Use use);
  Block* Find(const ArenaOwner& owner, size_t bytes);
  // The largest segment that is `owner`'s.
  size_t Own(const ArenaOwner& owner) const;
  // What could be given back for `owner`: now where memory is lent, else soon.
  size_t Soon(const ArenaOwner& owner);
  bool IsIdle(const Block& block) const;
  // Frees what nobody uses and `spared` does not want, until `bytes` fit.
  template <typename Spared>
  void MakeRoom(size_t bytes, Spared spared);
  // Gives up what is `owner`'s and no larger than `kept`; where that is null, all but what was
  // prepared.
  void GiveUp(const ArenaOwner& owner, const Block* kept, CUstream stream);
  // Behind what `stream` has by now.
  void RecordOver(Block& block, CUstream stream);
  // With the context current.
  bool HasPool();
  template <typename Unwanted>
  void Free(Unwanted unwanted);
  void Note(const void* handle);
  size_t Left() const { return limit_bytes_ - std::min(limit_bytes_, bytes_ + kept_); }
  bool IsShort() const { return short_from_ != std::numeric_limits<size_t>::max(); }

  const cuda::Driver& driver_;
  const CUcontext context_;
  const size_t limit_bytes_;
  std::atomic<uint64_t> generation_ = 0;
  mutable std::mutex mutex_;  // of all that follows
  // Of the pool alone: nobody's work is ever on it. Made with the first block.
  std::optional<cuda::Stream> stream_;
  std::optional<cuda::MemoryPool> pool_;
  std::vector<Block> blocks_;
  std::vector<const void*> handles_;  // that were given segments
  std::vector<Need> in_vain_;         // what owners gave up their segments for; one each
  size_t bytes_ = 0, kept_ = 0;
  uint64_t leaves_ = 0;
  bool fixed_ = false;
  // What the device has no memory for, since something was freed last.
  size_t short_from_ = std::numeric_limits<size_t>::max();
};

}  // namespace ucudnn::execution
