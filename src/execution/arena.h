// Workspace that the library owns, for calls whose callers were promised to bring none. An arena
// belongs to one context and hands out segments of it: one for each handle and stream, so that
// neither two streams, nor two threads that enqueue on one, ever use the same bytes at once.
// Thread-safe; a segment stays where it is, so that callers may remember it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "cuda/driver.h"

namespace ucudnn::execution {

// Who enqueues: CU_STREAM_PER_THREAD names another stream in each thread.
struct ArenaUser {
  ArenaUser(const void* of_handle, CUstream on)
      : handle(of_handle),
        stream(on),
        thread(on == CU_STREAM_PER_THREAD ? std::this_thread::get_id() : std::thread::id()) {}

  const void* handle;
  CUstream stream;
  std::thread::id thread;
  bool operator==(const ArenaUser&) const = default;
};

class Arena {
 public:
  struct Segment {
    void* data = nullptr;  // null: none
    size_t bytes = 0;
  };

  // All segments together never exceed `limit_bytes`. `driver` outlives the object.
  Arena(const cuda::Driver& driver, CUcontext context, size_t limit_bytes)
      : driver_(driver), context_(context), limit_bytes_(limit_bytes) {}
  ~Arena() { Free(true); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // At least `bytes` for `user`: may allocate, so not for a stream that is captured. What was too
  // small is kept, for work may still use it. An error when the limit or the memory is out.
  Result<Segment> Take(const ArenaUser& user, size_t bytes);

  // Sees to it that a segment of `bytes` is ready for a capture to come.
  Status ReserveForCapture(size_t bytes);
  // For one captured call, whose graph may run at any time, beside any other and as long as the
  // process lives: never used again. Allocates nothing: none where none of `bytes` is ready.
  Segment TakeForCapture(size_t bytes);

  // After `handle` is destroyed. With the last handle all is freed but what captures use.
  void Release(const void* handle);

  size_t bytes() const;

 private:
  struct Block {
    Segment segment;
    ArenaUser user = {nullptr, nullptr};
    enum class Use { kReady, kStream, kCapture } use = Use::kReady;
  };
  Result<Block*> Allocate(size_t bytes, Block::Use use);
  void Free(bool all);

  const cuda::Driver& driver_;
  const CUcontext context_;
  const size_t limit_bytes_;
  mutable std::mutex mutex_;  // of all that follows
  std::vector<Block> blocks_;
  std::vector<const void*> handles_;  // that took segments
  size_t bytes_ = 0;
};

}  // namespace ucudnn::execution
