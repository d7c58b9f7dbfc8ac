// One rank of a communicator: its place among the others, its state, and the order of its
// operations. Thread-safe. Shared by the handle and by the work on streams, which may outlive it.
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
  // `context` is the device's, retained by the maker.
  Communicator(const Place& place, CUctx_st* context, bool blocking);

  ncclComm_t Handle() { return reinterpret_cast<ncclComm_t>(this); }
  int rank() const { return place_.rank; }
  int ranks() const { return place_.ranks; }
  int device() const { return place_.device; }
  CUctx_st* context() const { return context_; }
  bool blocking() const { return blocking_; }
  // Not in a child that was forked from the process that made it: the rank is its parent's.
  bool IsOurs() const { return process_ == ThisProcess(); }

  // The communicator becomes usable (of `membership`), or fails. Once.
  void Settle(ncclResult_t result, Membership membership);

  // Success, in progress, or the error that made it useless.
  ncclResult_t State() const { return state_.load(); }
  // Whether a call may use it: only in the state of success, and before its end.
  Outcome CheckUsable() const;

  // Nothing runs from now on, and the other ranks learn of it: of the first error, of an abort, of
  // an orderly end.
  void Fail(const Outcome& outcome);
  void Abort();
  void SayGoodbye();
  const std::atomic<bool>& aborted() const { return aborted_; }
  bool GivenUp() const;

  // Runs the operation in its turn, unless the communicator is given up before; what goes wrong
  // becomes the communicator's error. `place` is of turns(), none for what a graph launches.
  void Perform(const Operation& operation, std::optional<uint64_t> place);
  Turns& turns() { return turns_; }
  // Until all operations are done, or none runs and none will.
  void AwaitEnd();
  // How many operations of it graphs hold. NCCL ends no communicator before the last is gone.
  void AddHeld(int change);
  void AwaitNoneHeld();

  // For those who exchange messages.
  const Board& board() const { return membership_.board; }
  const Mapping& memory(int rank) const { return membership_.memories[rank]; }
  // The error when nothing more is to be expected of the rank. Looking at processes costs a system
  // call.
  enum class Look { kPresence, kProcess };
  Outcome CheckPeer(int rank, Look look) const;
  // Room for results that cannot be written yet; the running operation's.
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
  std::vector<ProcessWatch> watches_;  // of the ranks' processes; of nobody for this one
  Turns turns_;
  std::vector<char> scratch_;
  std::mutex held_mutex_;
  std::condition_variable held_changed_;
  int held_ = 0;
};

// The communicators of this process that have a handle.
void Register(const std::shared_ptr<Communicator>& communicator);
std::shared_ptr<Communicator> Find(ncclComm_t handle);
// Null when it was none, or not any more: only one caller gets it.
std::shared_ptr<Communicator> Unregister(ncclComm_t handle);

}  // namespace hostgpu::nccl
