// One cuDNN handle of the application, and the decisions taken for calls on it. Lookups take no
// lock shared between handles. A session is used by one thread at a time as cuDNN demands of a
// handle; a program that breaks that rule waits on the session's own mutex instead of crashing.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "convolution/problem.h"
#include "cudnn/functions.h"
#include "execution/arena.h"
#include "execution/planned_convolution.h"
#include "interposer/network.h"
#include "interposer/promise_book.h"
#include "interposer/report.h"

namespace ucudnn::interposer {

// What decides how a call runs beside the problem. cuDNN serves an identity activation with one
// algorithm only, and pointers on less than 16 bytes may suit the caller's algorithm alone. Engines
// of the graph API serve plain calls, alpha = 1 and beta = 0, and, by plans of their own that must
// run before they are captured, calls that add to the gradient of a filter, beta = 1; calls with
// other scales are kScaled.
enum class Flavour : int32_t { kPlain, kAdding, kScaled, kActivation, kMisaligned, kIdentity };

struct CallKey {
  ConvolutionProblem problem;
  int32_t algorithm = 0;
  Flavour flavour = Flavour::kPlain;
  uint64_t workspace_bytes = 0;
  bool operator==(const CallKey&) const = default;
};

struct CallKeyHash {
  size_t operator()(const CallKey& key) const {
    return key.problem.Hash() ^ (key.workspace_bytes * 0x9e3779b97f4a7c15u) ^
           (static_cast<uint64_t>(key.algorithm) << 8) ^ static_cast<uint64_t>(key.flavour);
  }
};

struct Decision {
  std::unique_ptr<execution::PlannedConvolution> plan;  // null: the call runs as the caller asked
  CountedKernel* record = nullptr;
  PromiseBook::Page* page = nullptr;  // promises it was taken with...
  uint64_t version = 0;               // ...as of this version
  // Calls of the page after which it is taken anew, because more may be known then.
  std::atomic<long> due_at = kFinal;
  bool refused = false;  // over a strict limit
  LibraryPart library;
  // Set where calls are checked: the coarsest arithmetic of the plan and the undivided engine.
  std::optional<planning::NumericClass> checked;
  // Never compared, or without memory: the undivided algorithm runs instead, where there is one. So
  // it does for ever where a piece failed (PromiseBook::Page::failed).
  std::atomic<bool> barred = false;
  std::atomic<bool> ran = false;  // all pieces ran once, so they may be captured

  static constexpr long kFinal = std::numeric_limits<long>::max();
  bool Due() const {
    const long due = due_at.load(kRelaxed);
    return due != kFinal && page->calls.load(kRelaxed) >= due;
  }
  bool Divides() const { return plan != nullptr && plan->has_pieces() && !barred && !page->failed; }
  void Count(uint64_t lane) {
    if (due_at.load(kRelaxed) != kFinal) page->calls.fetch_add(1, kRelaxed);
    record->Count(lane);
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
};

class Session {
 public:
  Session() = default;

  // Takes a new handle; what an earlier one left is gone.
  void Open(CUcontext context, int platform, CUstream stream, Network* network = nullptr);
  void Close();

  CUcontext context() const { return context_; }
  int platform() const { return platform_; }
  // Null where every kernel has a workspace of its own.
  Network* network() const { return network_; }
  CUstream stream() const { return stream_.load(std::memory_order_relaxed); }
  void set_stream(CUstream stream) {
    if (stream == this->stream()) return;
    stream_.store(stream, std::memory_order_relaxed);
    set_lane(0);
  }

  // What names the lane of all handles whose work the program orders; null: none but this one.
  const void* order() const { return order_.load(std::memory_order_acquire); }
  void set_order(const void* lane) {
    order_.store(lane, std::memory_order_release);
    set_lane(0);
  }

  // Lanes::BitOf what its calls are enqueued by now; 0: not known yet.
  uint64_t lane() const { return lane_.load(std::memory_order_relaxed); }
  void set_lane(uint64_t bit) { lane_.store(bit, std::memory_order_relaxed); }

  // The decision for `key`; null when there is none, or a promise was given since. Stays valid
  // until Close.
  Decision* Find(const CallKey& key);
  Decision* Keep(const CallKey& key, std::unique_ptr<Decision> decision);
  // A segment of the library's workspace that was kept for `owner`, of at least `bytes`; none when
  // there is none yet. `generation`: the arena's; what was kept in an earlier one is forgotten.
  execution::Arena::Segment FindWorkspace(const execution::ArenaOwner& owner, size_t bytes,
                                          uint64_t generation);
  void KeepWorkspace(const execution::ArenaOwner& owner, execution::Arena::Segment segment);
  // So many decisions that new ones should not be kept: a call is also told from others by its
  // workspace, which some callers change every time.
  bool full() const { return full_.load(std::memory_order_relaxed); }

 private:
  CUcontext context_ = nullptr;
  int platform_ = 0;
  Network* network_ = nullptr;
  std::atomic<CUstream> stream_ = nullptr;
  std::atomic<const void*> order_ = nullptr;
  std::atomic<uint64_t> lane_ = 0;
  std::mutex mutex_;
  std::unordered_map<CallKey, std::unique_ptr<Decision>, CallKeyHash> decisions_;
  std::atomic<bool> full_ = false;
  // Replaced decisions: a call on another thread may still hold one.
  std::vector<std::unique_ptr<Decision>> replaced_;
  std::vector<std::pair<execution::ArenaOwner, execution::Arena::Segment>> workspaces_;
  uint64_t generation_ = 0;  // of workspaces_
};

// What enqueues `session`'s calls, one after the other, in the library's workspace. None where the
// driver does not tell.
std::optional<execution::ArenaOwner> OwnerOf(const cuda::Driver& driver, const Session& session,
                                             cudnnHandle_t handle);

// Sessions by handle. Find is wait-free; sessions are reused and live as long as the table.
class SessionTable {
 public:
  Session* Find(cudnnHandle_t handle) const;
  // The session of `handle`, opened by `open` when there was none. Null when the table is full.
  template <typename Open>
  Session* FindOrOpen(cudnnHandle_t handle, Open open) {
    std::lock_guard lock(mutex_);
    spare_.reserve(kSlots);  // Close gives sessions back and must not fail
    if (Session* session = Find(handle)) return session;
    Session* const session = TakeSession();
    open(*session);
    if (Insert(handle, session)) return session;
    spare_.push_back(session);
    return nullptr;
  }
  void Close(cudnnHandle_t handle);
  // The program orders the work of both, and of all that it ordered with either before: without a
  // network, which would name them.
  void Order(Session& first, Session& second);
  // No handle is open.
  bool empty();

 private:
  static constexpr size_t kSlots = 4096;  // a power of two
  struct Slot {
    std::atomic<cudnnHandle_t> handle = nullptr;  // null: never used, ends a probe
    std::atomic<Session*> session = nullptr;      // null: free
  };
  static size_t FirstSlot(cudnnHandle_t handle);
  Session* TakeSession();
  bool Insert(cudnnHandle_t handle, Session* session);

  std::array<Slot, kSlots> slots_;
  std::mutex mutex_;  // of all that follows and of changes to the slots
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<Session*> spare_;
};

}  // namespace ucudnn::interposer
