// Workspace that ucudnn owns, for calls whose callers were told to bring none. An arena belongs to
// one context. It hands out segments, each to one owner: what enqueues on one stream, one call
// after the other. Two streams, or two threads that enqueue on one, never use the same bytes at
// once. Thread-safe.
//
// At first the arena lends: a loan is for one call, and memory of loans that are over goes to
// another owner that lacks it. Once it is known who needs what, Fix ends lending: from then on an
// owner may remember its segment, which stays valid until the owner takes a larger one.
//
// Assure sets memory aside for calls that cannot do without, and for the next capture.
//
// Nothing here waits for the device, because the device may run kernels that wait for work which
// this thread has yet to enqueue. Memory comes from a pool, and goes back to it when the last work
// on it is over. Where the device has no pools, such memory is freed when the application itself
// waits for the device, by destroying a handle.
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

namespace ucudnn::execution {

// What enqueues. A stream is named by its id, because its address may be another stream's after it
// is destroyed, while its work still runs.
struct ArenaOwner {
  const void* handle = nullptr;  // null: it was destroyed
  uint64_t stream = 0;
  // Set for CU_STREAM_PER_THREAD, which is another stream in each thread.
  std::thread::id thread = {};
  int kernel = -1;          // not -1: a segment for this kernel alone
  bool capturable = false;  // false on the legacy default stream
  bool operator==(const ArenaOwner&) const = default;
};

// None where the driver does not tell the stream's id.
std::optional<ArenaOwner> OwnerOf(const cuda::Driver& driver, const void* handle, CUstream stream);

class Arena {
 public:
  struct Segment {
    void* data = nullptr;  // null: no segment
    size_t bytes = 0;
  };
  struct Need {
    ArenaOwner owner;
    size_t bytes = 0;
  };

  // All segments together never exceed `limit_bytes`. The caller owns `driver` and keeps it alive.
  Arena(const cuda::Driver& driver, CUcontext context, size_t limit_bytes)
      : driver_(driver), context_(context), limit_bytes_(limit_bytes) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The bytes that Borrow or Take could give `owner`, now or once its own present work is over.
  size_t Available(const ArenaOwner& owner);
  // Keeps `bytes` of the limit from everybody, until another call says otherwise.
  void Keep(size_t bytes);

  // Lends at least `bytes` for one call, which must end with GiveBack. Empty while others use the
  // memory, or where it is out. May allocate, so not for a stream that is captured.
  Segment Borrow(const ArenaOwner& owner, size_t bytes);
  // Call after the call's work was enqueued on `stream`.
  void GiveBack(const Segment& segment, CUstream stream);

  enum class Readiness { kReady, kBusy, kShort };
  // Prepares a segment for each of `needs`, beside what captures have, and frees all others but
  // those that lost_bytes() counts. kBusy: some are still in use, and nothing was allocated.
  // kShort: the device's memory is out, and no segment was added.
  Readiness Prepare(std::span<const Need> needs);
  // Ends lending; from now on Take serves.
  void Fix();

  // Gives `owner`, which is about to enqueue on `stream`, at least `bytes` to keep. Empty where the
  // limit is reached or memory is out. The owner's smaller segments are given up; others get them
  // once the work that `stream` has by now is over. May allocate.
  //
  // Where only such work is in the way, the request reserves its size: the owner's next Take asks
  // for at least as much, so that its smaller requests do not take the freed memory again and
  // again.
  Segment Take(const ArenaOwner& owner, size_t bytes, CUstream stream);
  // Rises when a segment that an owner may remember is given up.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // Makes a segment of at least `bytes` ready for a later capture. Returns false where there is no
  // room.
  bool ReserveForCapture(size_t bytes);
  // Gives `owner` a segment for its calls inside one capture; empty where none is ready. The
  // capture's graph may run at any time, beside any other, so the segment is nobody else's until
  // the graph has ended; then it is ready for the next capture, or freed where others need the
  // room. Allocates nothing.
  Segment TakeForCapture(const cuda::Capture& capture, const ArenaOwner& owner, size_t bytes);

  // Sets at least `bytes` aside for any call, in place of less, and as many for a capture where
  // there is room; replaces what a capture took. Returns false where the limit or the device has no
  // room: then what was assured before still is. Takes no lock where nothing is to be done.
  bool Assure(size_t bytes);
  bool IsAssured(size_t bytes) const {
    return bytes <= assured_bytes() && !capture_took_.load(std::memory_order_acquire);
  }
  size_t assured_bytes() const { return assured_bytes_.load(std::memory_order_acquire); }
  // Lends at least `bytes`, at most assured_bytes(), for one call on `stream`, which must end with
  // GiveBack. While other streams use what was set aside, it allocates more, beyond the limit, too,
  // because the call would fail without. Where the device has none either, `stream` waits there for
  // another one's work; empty where that is not enqueued yet.
  Segment BorrowAssured(const ArenaOwner& owner, size_t bytes, CUstream stream);
  // As TakeForCapture, of what was set aside. Where other captures have that, it allocates, beyond
  // the limit, too, because the capture would fail without.
  Segment TakeAssuredForCapture(const cuda::Capture& capture, const ArenaOwner& owner,
                                size_t bytes);

  // Call Leave when `handle` enqueues no more, and Waited with its result once the device was
  // waited for, as cudnnDestroy does. Waited frees what belonged to handles that had left by then.
  // Where no handle is left, it frees all but what graphs use and what is assured, and returns
  // true.
  uint64_t Leave(const void* handle);
  bool Waited(uint64_t leave);
  // Whether `owner` has a segment of at least `bytes`, which Take would give it again.
  bool Has(const ArenaOwner& owner, size_t bytes) const;
  // The number of segments whose owner's `kernel` is this one.
  size_t CopiesOf(int kernel) const;

  // Whether an allocation for calls failed since memory was freed last. As much is not tried again,
  // and Available counts no memory that has yet to be allocated.
  bool short_of_memory();
  size_t bytes() const;
  // The part of bytes() that captures have or that is ready for one.
  size_t capture_bytes() const;
  // The part of bytes() from which calls have no shares: what captures have, what is ready for one,
  // and what is assured.
  size_t set_aside_bytes() const;
  // The part of the limit that is neither allocated nor kept from everybody.
  size_t left() const;
  // The part of bytes() in segments of which nothing tells when they become free.
  size_t lost_bytes() const;

 private:
  enum class Use {
    kReady,    // for a later capture
    kStream,   // lent, or its owner's
    kCapture,  // a capture's graph has it
    kAssured,  // for calls that cannot do without
    kAssuredCapture,
  };
  struct Block {
    Segment segment;
    ArenaOwner owner;
    Use use = Use::kReady;
    cuda::CaptureHold hold;  // of the capture that took the block
    CUevent over = nullptr;  // recorded behind the last loan, or when it was given up; null: never
    int loans = 0;           // not yet given back
    bool lost = false;       // nothing tells when its last work is over
    bool given_up = false;   // its owner has a larger one
    bool prepared = false;   // for its owner: not given back for another's sake
    uint64_t left = 0;       // set: its owner's Leave, since when it is nobody's
  };
  enum class Bound { kLimit, kDevice };  // kDevice: beyond the limit, too
  Block* Allocate(size_t bytes, Use use, Bound bound = Bound::kLimit) UCUDNN_REQUIRES(mutex_);
  // REQUIRES: the context is current.
  bool AssureCalls(size_t bytes) UCUDNN_REQUIRES(mutex_);
  // The first segment of that use; null: none.
  Block* FindUse(Use use) UCUDNN_REQUIRES(mutex_);
  Block* FindCaptured(const cuda::Capture& capture, const ArenaOwner& owner, size_t bytes)
      UCUDNN_REQUIRES(mutex_);
  Segment GiveToCapture(Block& block, const cuda::Capture& capture, const ArenaOwner& owner)
      UCUDNN_REQUIRES(mutex_);
  // Whether a capture's graph had the block, and has ended.
  static bool IsLeft(const Block& block) {
    return block.use == Use::kCapture && block.hold.IsOver();
  }
  Block* Find(const ArenaOwner& owner, size_t bytes) UCUDNN_REQUIRES(mutex_);
  // The largest segment that is `owner`'s.
  size_t Own(const ArenaOwner& owner) const UCUDNN_REQUIRES(mutex_);
  // What could be given back for `owner`: now where memory is lent, else soon.
  size_t Soon(const ArenaOwner& owner) UCUDNN_REQUIRES(mutex_);
  bool IsIdle(const Block& block) const UCUDNN_REQUIRES(mutex_);
  // Frees what nobody uses and `spared` does not want, until `bytes` fit.
  template <typename Spared>
  void MakeRoom(size_t bytes, Spared spared) UCUDNN_REQUIRES(mutex_);
  // Gives up what is `owner`'s and no larger than `kept`; where that is null, all but what was
  // prepared.
  void GiveUp(const ArenaOwner& owner, const Block* kept, CUstream stream) UCUDNN_REQUIRES(mutex_);
  // Records in `block` that it is over once all work that `stream` has by now is done.
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
  // What was assured to captures was taken, and there may be room to replace it.
  std::atomic<bool> capture_took_ = false;
  mutable Mutex mutex_;
  // The pool allocates on this stream, which nobody else enqueues on. Made with the first block.
  std::optional<cuda::Stream> stream_ UCUDNN_GUARDED_BY(mutex_);
  std::optional<cuda::MemoryPool> pool_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<Block> blocks_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<const void*> handles_ UCUDNN_GUARDED_BY(mutex_);  // that were given segments
  // The requests that owners gave up their segments for, at most one of each owner.
  std::vector<Need> in_vain_ UCUDNN_GUARDED_BY(mutex_);
  size_t bytes_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t kept_ UCUDNN_GUARDED_BY(mutex_) = 0;
  uint64_t leaves_ UCUDNN_GUARDED_BY(mutex_) = 0;
  bool fixed_ UCUDNN_GUARDED_BY(mutex_) = false;
  // So many bytes, or more, the device had no memory for since something was freed last.
  size_t short_from_ UCUDNN_GUARDED_BY(mutex_) = std::numeric_limits<size_t>::max();
};

}  // namespace ucudnn::execution
