// One rank of a communicator: its place among the other ranks, its state, and the order of its
// operations. Thread-safe. The handle shares it with the work on streams, which may outlive the
// handle.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shim/host/nccl/bootstrap.h"
#include "shim/host/nccl/operation.h"
#include "shim/host/nccl/outcome.h"
#include "shim/host/nccl/process_watch.h"
#include "shim/host/nccl/turns.h"

struct CUctx_st;

namespace hostgpu::nccl {

class Communicator {
 public:
  // `context` is the device's, retained by the caller.
  Communicator(const Place& place, CUctx_st* context, bool blocking);

  ncclComm_t Handle() { return reinterpret_cast<ncclComm_t>(this); }
  int rank() const { return place_.rank; }
  int ranks() const { return place_.ranks; }
  int device() const { return place_.device; }
  CUctx_st* context() const { return context_; }
  bool blocking() const { return blocking_; }
  // False in a child that was forked from the process that made it: the rank is its parent's.
  bool IsOurs() const { return process_ == ThisProcess(); }

  // The communicator becomes usable (with `membership`), or fails. To be called once.
  void Settle(ncclResult_t result, Membership membership);

  // Success, in progress, or the error that made it useless.
  ncclResult_t State() const { return state_.load(); }
  // Returns success if a call may use it, else why not: it must be in the state of success, and not
  // aborted.
  Outcome CheckUsable() const;

  // These functions end all operations, and tell the other ranks the reason: the first error, an
  // abort, or an orderly end.
  void Fail(const Outcome& outcome);
  void Abort();
  void SayGoodbye();
  const std::atomic<bool>& aborted() const { return aborted_; }
  bool GivenUp() const;

  // Runs the operation in its turn, unless the communicator is given up before; an error becomes
  // the communicator's. `place` is one of turns(), none for a graph's operation.
  void Perform(const Operation& operation, std::optional<uint64_t> place);
  Turns& turns() { return turns_; }
  // Waits until all operations are done, or until none runs and none will.
  void AwaitEnd();
  // Changes the number of its operations that graphs hold. NCCL ends no communicator while any is
  // held.
  void AddHeld(int change);
  void AwaitNoneHeld();

  // The following members serve the code that exchanges messages.
  const Board& board() const { return membership_.board; }
  const Mapping& memory(int rank) const { return membership_.memories[rank]; }
  // The error if nothing more is to be expected of the rank. Checking processes costs a system
  // call.
  enum class Look { kPresence, kProcess };
  Outcome CheckPeer(int rank, Look look) const;
  // Scratch of the running operation, for results that cannot be written yet.
  std::vector<char>& scratch() { return scratch_; }

 private:
  const Place place_;
  const uint64_t process_ = ThisProcess();
  CUctx_st* const context_;
  const bool blocking_;
  std::atomic<ncclResult_t> state_{ncclInProgress};
  std::atomic<bool> settled_{false};
  std::atomic<bool> aborted_{false};
  Membership membership_;              // constant once settled
  std::vector<ProcessWatch> watches_;  // by rank; the entry of this rank watches no process
  Turns turns_;
  std::vector<char> scratch_;
  std::mutex held_mutex_;
  std::condition_variable held_changed_;
  int held_ = 0;
};

// The communicators of this process that have a handle.
void Register(const std::shared_ptr<Communicator>& communicator);
std::shared_ptr<Communicator> Find(ncclComm_t handle);
// Returns null if the handle is unknown, or was removed before: only one caller gets it.
std::shared_ptr<Communicator> Unregister(ncclComm_t handle);

}  // namespace hostgpu::nccl
