// Workspace that ucudnn owns, for calls without workspace of the caller: ucudnn told the callers
// that they need none. An arena belongs to one context. It gives segments (pieces of its memory) to
// owners. An owner enqueues one call after the other: it is a handle on a stream, or several
// handles whose work the program orders. Two owners never use the same bytes at the same time.
// Thread-safe.
//
// At first the arena lends. A loan is for one call, and memory that is not lent may go to any owner
// that needs it. Once the needs of all owners are known, Fix ends lending: from then on an owner
// may remember its segment, which stays valid until generation() rises or Leave is called for the
// owner's handle.
//
// Assure sets memory aside for calls that cannot run without workspace, and for the next capture.
//
// No function waits for the device, because the work on the device may itself wait for work that
// this thread has not enqueued yet. Memory is allocated from a pool, and returns to the pool when
// the last work on it is over. On a device without pools, memory is freed only when the application
// itself waits for the device by destroying a handle.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "cuda/capture.h"
#include "cuda/driver.h"
#include "cuda/resources.h"

namespace ucudnn::interposer {

// Identifies who enqueues calls. A stream is identified by its id, because a new stream may get the
// address of a destroyed stream whose work still runs.
struct ArenaOwner {
  const void* handle = nullptr;  // null: the handle was destroyed
  uint64_t stream = 0;
  // Set for CU_STREAM_PER_THREAD, which is a different stream in each thread.
  std::thread::id thread = {};
  // The only kernel that uses the segment or, with a workspace plan, the number of the plan's
  // segment; -1: any kernel may use the segment.
  int kernel = -1;
  bool capturable = false;  // false on the legacy default stream
  bool operator==(const ArenaOwner&) const = default;
};

// Returns the owner of work that this thread enqueues on `stream` through `handle`; none if the
// driver does not report the stream's id.
std::optional<ArenaOwner> OwnerOf(const cuda::Driver& driver, const void* handle, CUstream stream);

class Arena {
 public:
  struct Segment {
    void* data = nullptr;  // null: there is no segment
    size_t bytes = 0;
  };
  struct Need {
    ArenaOwner owner;
    size_t bytes = 0;
  };

  // The caller owns `driver` and keeps it alive. Only BorrowAssured and TakeAssuredForCapture may
  // bring the sum of all segments above `limit_bytes`.
  Arena(const cuda::Driver& driver, CUcontext context, size_t limit_bytes)
      : driver_(driver), context_(context), limit_bytes_(limit_bytes) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // While the arena lends, returns how many bytes Borrow could give `owner` now. After Fix, returns
  // how many bytes Take could give `owner` now or once the owner's present work is over.
  size_t Available(const ArenaOwner& owner);
  // Withholds `bytes` of the limit from all owners, in place of the amount of the previous Keep.
  void Keep(size_t bytes);

  // Lends at least `bytes` for one call, after which GiveBack must be called. Returns an empty
  // segment if other owners use the memory or no memory is left. May allocate, so it must not be
  // called for a stream that is captured.
  Segment Borrow(const ArenaOwner& owner, size_t bytes);
  // Ends a loan. To be called after the call's work was enqueued on `stream`.
  void GiveBack(const Segment& segment, CUstream stream);

  enum class Readiness { kReady, kBusy, kShort };
  // Makes a segment ready for each of `needs`. Frees all other segments for ordinary calls, except
  // segments that lost_bytes() counts. Returns kBusy if some segments are still in use; nothing was
  // allocated then. Returns kShort if the device has no memory left; no segment was added then.
  Readiness Prepare(std::span<const Need> needs);
  // Ends lending. From now on owners call Take.
  void Fix();

  // Gives `owner`, which is about to enqueue on `stream`, a segment of at least `bytes` to keep.
  // Returns an empty segment if the limit is reached or the device has no memory. Gives up the
  // owner's smaller segments: other owners may get them once the work that is on `stream` now is
  // done. May allocate.
  //
  // If a request fails only because work on given-up segments is unfinished, Take remembers the
  // size of the request. The owner's next Take asks for at least this size. Otherwise smaller
  // requests of the owner would take the freed memory again and again.
  Segment Take(const ArenaOwner& owner, size_t bytes, CUstream stream);
  // Increases when a segment that an owner may remember is given up.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // Makes a segment of at least `bytes` ready for a later capture. Returns false if the limit is
  // reached or the device has no memory.
  bool ReserveForCapture(size_t bytes);
  // Gives `owner` a segment for its calls inside one capture; an empty segment if no segment is
  // ready. The capture's graph may run at any time, at the same time as any other graph, so nobody
  // else uses the segment until the graph has ended. Then the segment is ready for the next
  // capture, or is freed if other owners need the memory. Allocates nothing.
  Segment TakeForCapture(const cuda::Capture& capture, const ArenaOwner& owner, size_t bytes);

  // Raises assured_bytes() to at least `bytes`: sets so much memory aside for calls and, if
  // possible, as much again for one capture. Replaces the segment for captures if a capture has
  // taken it. Returns false if the limit or the device leaves too little memory for calls; the
  // earlier amount then remains assured. Takes no lock if there is nothing to do.
  bool Assure(size_t bytes);
  bool IsAssured(size_t bytes) const {
    return bytes <= assured_bytes() && !capture_took_.load(std::memory_order_acquire);
  }
  size_t assured_bytes() const { return assured_bytes_.load(std::memory_order_acquire); }
  // Lends at least `bytes` of the memory that Assure has set aside, for one call on `stream`.
  // GiveBack must be called after that call. If other owners' work uses all of this memory,
  // allocates more, even beyond the limit, because the call would fail without workspace. If that
  // allocation fails, lends memory that another stream's work still uses, and makes `stream` wait
  // for that work on the device. Returns an empty segment if that is not possible, because that
  // work is not enqueued yet.
  Segment BorrowAssured(const ArenaOwner& owner, size_t bytes, CUstream stream);
  // Like TakeForCapture, but also uses memory that was set aside. If other captures have that
  // memory, allocates more, even beyond the limit, because the capture would fail without
  // workspace.
  Segment TakeAssuredForCapture(const cuda::Capture& capture, const ArenaOwner& owner,
                                size_t bytes);

  // Leave is to be called when `handle` will enqueue no more. Its result is to be passed to Waited
  // after the caller has waited for the device, as cudnnDestroy does. Waited frees the segments of
  // each handle whose Leave returned `leave` or less. If no handle is left, Waited frees all
  // segments except assured segments and segments of graphs, and returns true.
  uint64_t Leave(const void* handle);
  bool Waited(uint64_t leave);
  // Returns whether `owner` has a segment of at least `bytes`. Take would return this segment
  // again.
  bool Has(const ArenaOwner& owner, size_t bytes) const;
  // Returns the number of segments for calls whose owner has this value of ArenaOwner::kernel.
  size_t CopiesOf(int kernel) const;

  // Returns whether an allocation for calls has failed since memory was last freed. Until memory is
  // freed, allocations of at least the failed size are not tried again, and Available counts no
  // memory that would have to be allocated.
  bool short_of_memory();
  size_t bytes() const;
  // Returns the part of bytes() that captures have or that is set aside for captures.
  size_t capture_bytes() const;
  // Returns the part of bytes() that is not for ordinary calls: segments of captures, segments that
  // are ready for a capture, and assured segments.
  size_t set_aside_bytes() const;
  // Returns the part of the limit that is neither allocated nor withheld by Keep.
  size_t left() const;
  // Returns the bytes of segments for which no event shows when they become idle. These bytes are
  // included in bytes().
  size_t lost_bytes() const;

 private:
  enum class Use {
    kReady,    // ready for a later capture
    kStream,   // lent to an owner, or kept by an owner
    kCapture,  // held by a capture's graph
    kAssured,  // for calls that cannot run without workspace
    kAssuredCapture,
  };
  struct Block {
    Segment segment;
    ArenaOwner owner;
    Use use = Use::kReady;
    cuda::CaptureHold hold;  // names the capture that took the block
    // Recorded after the last loan, or when the block was given up; null: never recorded.
    CUevent over = nullptr;
    int loans = 0;          // loans that were not given back yet
    bool lost = false;      // no event shows when the last work on the block is over
    bool given_up = false;  // the owner must no longer use the block
    bool prepared = false;  // may not be freed for another owner
    uint64_t left = 0;      // result of Leave for the owner's handle; 0: the handle has not left
  };
  enum class Bound { kLimit, kDevice };  // kDevice: the block may exceed the limit
  Block* Allocate(size_t bytes, Use use, Bound bound = Bound::kLimit) UCUDNN_REQUIRES(mutex_);
  // REQUIRES: the context is current.
  bool AssureCalls(size_t bytes) UCUDNN_REQUIRES(mutex_);
  // Returns the first block with this use; null if there is none.
  Block* FindUse(Use use) UCUDNN_REQUIRES(mutex_);
  Block* FindCaptured(const cuda::Capture& capture, const ArenaOwner& owner, size_t bytes)
      UCUDNN_REQUIRES(mutex_);
  Segment GiveToCapture(Block& block, const cuda::Capture& capture, const ArenaOwner& owner)
      UCUDNN_REQUIRES(mutex_);
  // Returns whether the block belongs to a capture whose graph has ended.
  static bool IsLeft(const Block& block) {
    return block.use == Use::kCapture && block.hold.IsOver();
  }
  Block* Find(const ArenaOwner& owner, size_t bytes) UCUDNN_REQUIRES(mutex_);
  // Returns the size of the largest segment that `owner` may use.
  size_t Own(const ArenaOwner& owner) const UCUDNN_REQUIRES(mutex_);
  // Returns how many bytes can be freed for `owner`: while the arena lends, the bytes that are idle
  // now; after Fix, also the bytes that become idle once the owner's present work is over.
  size_t Soon(const ArenaOwner& owner) UCUDNN_REQUIRES(mutex_);
  bool IsIdle(const Block& block) const UCUDNN_REQUIRES(mutex_);
  // Frees idle blocks for which `spared` returns false, until `bytes` fit the limit.
  template <typename Spared>
  void MakeRoom(size_t bytes, Spared spared) UCUDNN_REQUIRES(mutex_);
  // Gives up the other segments of `owner` that are no larger than the segment of `kept`. If `kept`
  // is null, gives up all segments of `owner` that were not prepared.
  void GiveUp(const ArenaOwner& owner, const Block* kept, CUstream stream) UCUDNN_REQUIRES(mutex_);
  // Records in `block` the event that shows when all work that is on `stream` now is done; sets
  // `block.lost` if that fails.
  void RecordOver(Block& block, CUstream stream) UCUDNN_REQUIRES(mutex_);
  // REQUIRES: the context is current.
  bool HasPool() UCUDNN_REQUIRES(mutex_);
  template <typename Unwanted>
  void Free(Unwanted unwanted) UCUDNN_REQUIRES(mutex_);
  void Note(const void* handle) UCUDNN_REQUIRES(mutex_);
  size_t Left() const UCUDNN_REQUIRES(mutex_) {
    return limit_bytes_ - std::min(limit_bytes_, bytes_ + kept_);
  }
  bool IsShort() const UCUDNN_REQUIRES(mutex_) {
    return short_from_ != std::numeric_limits<size_t>::max();
  }

  const cuda::Driver& driver_;
  const CUcontext context_;
  const size_t limit_bytes_;
  std::atomic<uint64_t> generation_ = 0;
  std::atomic<size_t> assured_bytes_ = 0;
  // True if Assure should try to set a segment aside for captures, because none is set aside:
  // either a capture took the last one, or memory was short at the last attempt and may have been
  // freed since.
  std::atomic<bool> capture_took_ = false;
  mutable Mutex mutex_;
  // The stream of the pool's allocations, on which nothing else is enqueued. Made with the first
  // block.
  std::optional<cuda::Stream> stream_ UCUDNN_GUARDED_BY(mutex_);
  std::optional<cuda::MemoryPool> pool_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<Block> blocks_ UCUDNN_GUARDED_BY(mutex_);
  // Handles to which segments were given.
  std::vector<const void*> handles_ UCUDNN_GUARDED_BY(mutex_);
  // Requests of Take that failed only because work on their owners' given-up segments is
  // unfinished. Each owner has at most one such request.
  std::vector<Need> in_vain_ UCUDNN_GUARDED_BY(mutex_);
  size_t bytes_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t kept_ UCUDNN_GUARDED_BY(mutex_) = 0;
  uint64_t leaves_ UCUDNN_GUARDED_BY(mutex_) = 0;
  bool fixed_ UCUDNN_GUARDED_BY(mutex_) = false;
  // The size of the smallest allocation that has failed since memory was last freed.
  size_t short_from_ UCUDNN_GUARDED_BY(mutex_) = std::numeric_limits<size_t>::max();
};

}  // namespace ucudnn::interposer
