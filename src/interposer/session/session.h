// One cuDNN handle of the application, and the decisions about calls on it. Lookups take no lock
// that several handles share. cuDNN allows a handle on one thread at a time only. In a program that
// breaks this rule, a thread waits for the session's own mutex instead of crashing.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "convolution/problem.h"
#include "cudnn/functions.h"
#include "interposer/budget/arena.h"
#include "interposer/budget/workspace_budget.h"
#include "interposer/session/address_table.h"
#include "interposer/session/call_state.h"
#include "interposer/session/ordered_handles.h"
#include "tuning/measure.h"

namespace ucudnn::interposer {

class Session {
 public:
  Session() = default;

  // Begins the session of a new handle. Nothing remains of an earlier handle.
  // `platform` is the number of the device's platform; -1: the platform is unknown, and calls on
  // the handle must be forwarded.
  void Open(tuning::Device device, int platform, CUstream stream,
            WorkspaceBudget* budget = nullptr);
  void Close();

  const tuning::Device& device() const { return device_; }
  const cuda::Driver& driver() const { return *device_.driver; }
  const cudnn::Functions& functions() const { return *device_.functions; }
  CUcontext context() const { return device_.context; }
  int platform() const { return platform_; }
  // Returns the budget for all kernels of the device; null if there is none.
  WorkspaceBudget* budget() const { return budget_; }
  CUstream stream() const { return stream_.load(std::memory_order_relaxed); }
  void set_stream(CUstream stream) {
    if (stream == this->stream()) return;
    stream_.store(stream, std::memory_order_relaxed);
    set_lane(0);
  }
  // Returns whether the session's stream is being captured.
  bool Capturing() const;

  // Returns the name of the lane of all handles that the program orders with this one; null if
  // there are no such handles.
  const void* order() const { return order_.load(std::memory_order_acquire); }
  void set_order(const void* lane) {
    order_.store(lane, std::memory_order_release);
    set_lane(0);
  }

  // The bit of the lane of the next call (Lanes::BitOf); 0: not determined yet.
  uint64_t lane() const { return lane_.load(std::memory_order_relaxed); }
  void set_lane(uint64_t bit) { lane_.store(bit, std::memory_order_relaxed); }

  // Returns the decision for `key`. Returns null if there is none, or if a promise was given after
  // the decision. The session owns the decision until Close.
  CallState* Find(const CallKey& key);
  CallState* Keep(const CallKey& key, std::unique_ptr<CallState> state);
  // Returns a segment of ucudnn's workspace, of at least `bytes`, that was kept for `owner`; empty
  // if none was kept. `generation` is the present Arena::generation(): segments that were kept
  // under an earlier generation are forgotten.
  Arena::Segment FindWorkspace(const ArenaOwner& owner, size_t bytes, uint64_t generation);
  void KeepWorkspace(const ArenaOwner& owner, Arena::Segment segment);
  // Returns whether the session should keep no further decisions. A decision holds for one
  // workspace size, so a caller that passes another size at every call would need a new decision
  // each time.
  bool full() const { return full_.load(std::memory_order_relaxed); }

 private:
  tuning::Device device_;
  int platform_ = 0;
  WorkspaceBudget* budget_ = nullptr;
  std::atomic<CUstream> stream_ = nullptr;
  std::atomic<const void*> order_ = nullptr;
  std::atomic<uint64_t> lane_ = 0;
  Mutex mutex_;
  std::unordered_map<CallKey, std::unique_ptr<CallState>, CallKeyHash> states_
      UCUDNN_GUARDED_BY(mutex_);
  std::atomic<bool> full_ = false;
  // Decisions that were replaced. Calls on other threads may still use them.
  std::vector<std::unique_ptr<CallState>> replaced_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<std::pair<ArenaOwner, Arena::Segment>> workspaces_ UCUDNN_GUARDED_BY(mutex_);
  // The arena's generation when workspaces_ was filled.
  uint64_t generation_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

// Returns the arena's owner for work that the session's calls enqueue. Returns none if the driver
// does not report the stream's id.
std::optional<ArenaOwner> OwnerOf(const Session& session, cudnnHandle_t handle);

// Sessions by handle. Find is wait-free. The table owns the sessions, reuses them for other
// handles, and is never destroyed.
class SessionTable {
 public:
  Session* Find(cudnnHandle_t handle) const { return table_.Find(handle); }
  // Returns the session of `handle`; if there is none, opens one with open(session). Returns null
  // if the table is full.
  template <typename Open>
  Session* FindOrOpen(cudnnHandle_t handle, Open open) {
    MutexLock lock(mutex_);
    // Reserves now, because Close adds sessions to spare_ and must not fail.
    spare_.reserve(kMostSessions);
    if (Session* session = Find(handle)) return session;
    Session* const session = TakeSession();
    try {
      open(*session);
    } catch (...) {
      spare_.push_back(session);
      throw;
    }
    if (table_.Insert(handle, session)) return session;
    spare_.push_back(session);
    return nullptr;
  }
  // Closes the session of `handle`. Calls left(lane) before another lane can get the same name,
  // where `lane` is the name of the lane that ends with the handle (null: no lane ends).
  template <typename Left>
  void Close(cudnnHandle_t handle, Left left) {
    MutexLock lock(mutex_);
    if (Session* session = Find(handle)) {
      table_.Remove(handle);
      session->Close();
      spare_.push_back(session);
    }
    left(ordered_.Leave(handle));
  }
  void Close(cudnnHandle_t handle) {
    Close(handle, [](const void*) {});
  }
  // From now on, the sessions of both handles, and of all handles that the program had ordered with
  // one of them, are one lane.
  void Order(cudnnHandle_t first, cudnnHandle_t second);
  // Returns whether the table has no session.
  bool empty();

 private:
  static constexpr size_t kMostSessions = 4096;
  Session* TakeSession() UCUDNN_REQUIRES(mutex_);

  AddressTable<Session, 2 * kMostSessions> table_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Session>> sessions_ UCUDNN_GUARDED_BY(mutex_);
  std::vector<Session*> spare_ UCUDNN_GUARDED_BY(mutex_);
  OrderedHandles ordered_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::interposer
