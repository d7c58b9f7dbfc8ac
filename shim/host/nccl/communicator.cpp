#include "shim/host/nccl/communicator.h"

#include <unordered_map>
#include <utility>

#include "shim/host/leaked.h"
#include "shim/host/nccl/exchange.h"
#include "shim/host/nccl/settings.h"

namespace hostgpu::nccl {
namespace {

struct Communicators {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, std::shared_ptr<Communicator>> by_handle;
};

// Never destroyed: calls may still be made while the process exits.
Communicators& TheCommunicators() { return Leaked<Communicators>(); }

}  // namespace

Communicator::Communicator(const Place& place, CUctx_st* context, bool blocking)
    : place_(place), context_(context), blocking_(blocking) {}

void Communicator::Settle(ncclResult_t result, Membership membership) {
  if (result == ncclSuccess) {
    membership_ = std::move(membership);
    for (int rank = 0; rank < ranks(); ++rank) {
      const Member& member = board().seat(rank).member;
      const bool same = member.process == ThisProcess();
      watches_.push_back(same ? ProcessWatch() : ProcessWatch(member.memory.process));
    }
    settled_ = true;
  }
  state_ = result;
  // Before Settle there is no board on which an abort can be announced to the other ranks. So an
  // earlier abort is announced now.
  if (GivenUp() && settled_) Abort();
}

Outcome Communicator::CheckUsable() const {
  const ncclResult_t state = State();
  if (aborted_) return {ncclInvalidArgument, "the communicator was aborted"};
  if (state == ncclInProgress) {
    return {ncclInvalidArgument,
            "Attempt to use communicator before the previous operation returned ncclSuccess"};
  }
  if (state != ncclSuccess) {
    return {state, "the communicator failed before: " + std::string(ncclGetErrorString(state))};
  }
  return {};
}

void Communicator::Fail(const Outcome& outcome) {
  Recorded(outcome);
  if (settled_) board().seat(rank()).presence = Presence::kFailed;
  ncclResult_t from = state_.load();
  while (from == ncclSuccess || from == ncclInProgress) {
    if (state_.compare_exchange_weak(from, outcome.result)) break;
  }
  turns_.Wake();
  if (settled_) board().RingAll();
}

void Communicator::Abort() {
  if (settled_) board().seat(rank()).presence = Presence::kFailed;
  aborted_ = true;
  turns_.Wake();
  if (settled_) board().RingAll();
}

void Communicator::SayGoodbye() {
  if (!settled_) return;
  Presence here = Presence::kHere;
  board().seat(rank()).presence.compare_exchange_strong(here, Presence::kLeft);
  board().RingAll();
}

bool Communicator::GivenUp() const {
  const ncclResult_t state = State();
  return aborted_ || (state != ncclSuccess && state != ncclInProgress);
}

void Communicator::Perform(const Operation& operation, std::optional<uint64_t> place) {
  const auto given_up = [this] { return GivenUp(); };
  if (!turns_.Enter(place, given_up)) return;
  const bool serial = TheSettings().serial;
  if (!serial || SeizeDevice(device(), given_up)) {
    Outcome outcome;
    try {
      outcome = Exchange(*this, operation).Run();
    } catch (const std::bad_alloc&) {
      outcome = {ncclSystemError, "no host memory"};
    }
    if (serial) ReleaseDevice(device());
    if (!outcome.ok()) Fail(outcome);
  }
  turns_.Leave(place);
}

void Communicator::AwaitEnd() {
  turns_.AwaitEnd([this] { return GivenUp(); });
}

void Communicator::AddHeld(int change) {
  const std::lock_guard lock(held_mutex_);
  held_ += change;
  held_changed_.notify_all();
}

void Communicator::AwaitNoneHeld() {
  std::unique_lock lock(held_mutex_);
  held_changed_.wait(lock, [this] { return held_ == 0; });
}

Outcome Communicator::CheckPeer(int rank, Look look) const {
  switch (board().seat(rank).presence.load()) {
    case Presence::kLeft:
      return {ncclRemoteError, NameOf(rank) + " has destroyed its communicator"};
    case Presence::kFailed:
      return {ncclRemoteError, NameOf(rank) + " has aborted or failed"};
    case Presence::kHere:
      break;
  }
  if (look == Look::kProcess && watches_[rank].Gone()) {
    return {ncclRemoteError, "the process of " + NameOf(rank) + " has ended"};
  }
  return {};
}

void Register(const std::shared_ptr<Communicator>& communicator) {
  Communicators& all = TheCommunicators();
  std::lock_guard lock(all.mutex);
  all.by_handle.emplace(communicator->Handle(), communicator);
}

std::shared_ptr<Communicator> Find(ncclComm_t handle) {
  Communicators& all = TheCommunicators();
  std::lock_guard lock(all.mutex);
  const auto found = all.by_handle.find(handle);
  return found == all.by_handle.end() || !found->second->IsOurs() ? nullptr : found->second;
}

std::shared_ptr<Communicator> Unregister(ncclComm_t handle) {
  Communicators& all = TheCommunicators();
  std::lock_guard lock(all.mutex);
  const auto found = all.by_handle.find(handle);
  if (found == all.by_handle.end() || !found->second->IsOurs()) return nullptr;
  auto communicator = std::move(found->second);
  all.by_handle.erase(found);
  return communicator;
}

}  // namespace hostgpu::nccl
