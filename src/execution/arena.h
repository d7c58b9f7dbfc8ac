// Workspace that the library owns, for calls whose callers were promised to bring none. An arena
// belongs to one context and hands out segments of it, each to one owner: what enqueues on one
// stream, one call after the other. Neither two streams, nor two threads that enqueue on one, ever
// use the same bytes at once. Thread-safe.
//
// First it lends: a loan is of one call, and memory of loans that are over is given back where
// another owner lacks it. Once what is needed is known it is fixed: then an owner may remember its
// segment, which stays where it is.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/status.h"
#include "cuda/driver.h"

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
  ~Arena() { Free(true); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The largest segment that is `owner`'s.
  size_t Owned(const ArenaOwner& owner);
  // What Borrow or Take could give `owner` now.
  size_t Available(const ArenaOwner& owner);

  // At least `bytes` for one call, which must be given back; none while others use the memory, or
  // where it is out. May allocate, so not for a stream that is captured.
  Segment Borrow(const ArenaOwner& owner, size_t bytes);
  // After the call enqueued its work on `stream`.
  void GiveBack(const Segment& segment, CUstream stream);

  enum class Readiness { kReady, kBusy, kShort };
  // Sees to it that there is a segment for each of `needs`, beside what captures have: all others
  // are given back. kBusy: some are still in use, and nothing was changed for it. kShort: the
  // device's memory is out; none of the missing was allocated.
  Readiness Prepare(std::span<const Need> needs);
  // Ends lending: from now on Take serves.
  void Fix();

  // At least `bytes` that stay `owner`'s; none where the limit or the memory is out. May allocate.
  Segment Take(const ArenaOwner& owner, size_t bytes);

  // Sees to it that a segment of `bytes` is ready for a capture to come, where there is room.
  bool ReserveForCapture(size_t bytes);
  // For calls of `owner` inside one capture, whose graph may run at any time, beside any other and
  // as long as the process lives: never another's. Allocates nothing: none where none is ready.
  Segment TakeForCapture(uint64_t capture, const ArenaOwner& owner, size_t bytes);

  // After `handle` is destroyed. With the last handle all is freed but what captures use.
  void Release(const void* handle);

  // An allocation failed: then it is not tried again.
  bool short_of_memory();
  size_t bytes() const;

 private:
  enum class Use { kReady, kStream, kCapture };
  struct Block {
    Segment segment;
    ArenaOwner owner;
    Use use = Use::kReady;
    uint64_t capture = 0;
    CUevent over = nullptr;  // recorded behind the last loan; null: never lent
    int loans = 0;           // not yet given back
    bool lost = false;       // nothing tells when its last loan is over
    bool prepared = false;   // for its owner: not given back for another's sake
  };
  Block* Allocate(size_t bytes, Use use);
  Block* Find(const ArenaOwner& owner, size_t bytes);
  bool IsIdle(const Block& block) const;
  // Frees what nobody uses and `spared` does not want, until `bytes` fit.
  template <typename Spared>
  void MakeRoom(size_t bytes, Spared spared);
  void FreeBlock(Block& block);
  void Free(bool all);
  void Note(const void* handle);
  size_t left() const { return limit_bytes_ - bytes_; }

  const cuda::Driver& driver_;
  const CUcontext context_;
  const size_t limit_bytes_;
  mutable std::mutex mutex_;  // of all that follows
  std::vector<Block> blocks_;
  std::vector<const void*> handles_;  // that were given segments
  size_t bytes_ = 0;
  bool fixed_ = false;
  bool short_ = false;
};

}  // namespace ucudnn::execution
