// One rank of a communicator: its number, its state, and the order of its operations. Thread-safe.
// The handle and the work on streams share the object; the work may outlive the handle.
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
  // `context` is the device's primary context, which the caller has retained.
  Communicator(const Place& place, CUctx_st* context, bool blocking);

  ncclComm_t Handle() { return reinterpret_cast<ncclComm_t>(this); }
  int rank() const { return place_.rank; }
  int ranks() const { return place_.ranks; }
  int device() const { return place_.device; }
  CUctx_st* context() const { return context_; }
  bool blocking() const { return blocking_; }
  // Returns false in a child that was forked from the process of this rank, because the rank
  // belongs to the parent.
  bool IsOurs() const { return process_ == ThisProcess(); }

  // Makes the communicator usable with `membership`, or failed. Called once.
  void Settle(ncclResult_t result, Membership membership);

  // Returns ncclSuccess, ncclInProgress, or the error that made the communicator unusable.
  ncclResult_t State() const { return state_.load(); }
  // Returns success if calls may use the communicator: its state is ncclSuccess and it was not
  // aborted. Otherwise returns the reason.
  Outcome CheckUsable() const;

  // These functions tell the other ranks that this rank sends no more messages. Fail and Abort also
  // end this rank's operations. Fail sets the state to its error, unless the state is an error
  // already.
  void Fail(const Outcome& outcome);
  void Abort();
  void SayGoodbye();
  const std::atomic<bool>& aborted() const { return aborted_; }
  bool GivenUp() const;

  // Waits for the operation's turn and then runs the operation. Does not run it if the communicator
  // is given up before the turn comes. An error becomes the communicator's state. `place` is a
  // place in turns(), or none for an operation of a graph.
  void Perform(const Operation& operation, std::optional<uint64_t> place);
  Turns& turns() { return turns_; }
  // Waits until all operations are done. If the communicator is given up, waits only for the
  // operation that runs.
  void AwaitEnd();
  // Changes the number of this communicator's operations that graphs hold. As in the real library,
  // a communicator does not end while that number is above 0.
  void AddHeld(int change);
  void AwaitNoneHeld();

  // Exchange uses the members below.
  const Board& board() const { return membership_.board; }
  const Mapping& memory(int rank) const { return membership_.memories[rank]; }
  // Returns an error if the rank will send no more messages. kPresence reads only the board;
  // kProcess also checks by a system call whether the rank's process still runs.
  enum class Look { kPresence, kProcess };
  Outcome CheckPeer(int rank, Look look) const;
  // Memory of the running operation for results that cannot be stored in the target yet.
  std::vector<char>& scratch() { return scratch_; }

 private:
  const Place place_;
  const uint64_t process_ = ThisProcess();
  CUctx_st* const context_;
  const bool blocking_;
  std::atomic<ncclResult_t> state_{ncclInProgress};
  std::atomic<bool> settled_{false};
  std::atomic<bool> aborted_{false};
  Membership membership_;              // constant after Settle
  std::vector<ProcessWatch> watches_;  // by rank; entries of ranks in this process watch no process
  Turns turns_;
  std::vector<char> scratch_;
  std::mutex held_mutex_;
  std::condition_variable held_changed_;
  int held_ = 0;
};

// These functions keep and find the communicators of this process by their handles.
void Register(const std::shared_ptr<Communicator>& communicator);
std::shared_ptr<Communicator> Find(ncclComm_t handle);
// Returns null if the handle is unknown or was already removed, so only one caller gets the
// communicator.
std::shared_ptr<Communicator> Unregister(ncclComm_t handle);

}  // namespace hostgpu::nccl
