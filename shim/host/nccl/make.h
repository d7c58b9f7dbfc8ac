// Making communicators, on whatever thread.
#pragma once

#include <functional>
#include <memory>

#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {

// A communicator that is being made for a caller, who finds its handle at `to`.
class Making {
 public:
  enum class Handle { kAtOnce, kWhenUsable, kNever };
  // Of what is made in the background, where it is not blocking.
  static Handle HandleOf(const Communicator& communicator);
  Making(std::shared_ptr<Communicator> communicator, ncclComm_t* to, Handle handle);
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  // Fails where nothing settled it.
  ~Making();

  Communicator& communicator() { return *communicator_; }
  // Joins the others of `id`.
  Outcome Join(const ncclUniqueId& id);
  // It comes to nothing, for which `outcome` is the reason. Returns that.
  Outcome GiveUp(Outcome outcome);

 private:
  Outcome Settle(Outcome outcome, Membership membership);
  const std::shared_ptr<Communicator> communicator_;
  ncclComm_t* const to_;
  const Handle handle_;
  bool settled_ = false;
};

// Takes part in the split of `parent` that has this number, and joins the others of the color.
struct SplitPlace {
  uint64_t number;
  int color;
  int key;
};
Outcome Split(Communicator& parent, const SplitPlace& place, Making& making);

}  // namespace hostgpu::nccl
