// Makes communicators, on any thread.
#pragma once

#include <functional>
#include <memory>

#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {

// A communicator that is being made for a caller, who finds its handle at `to`.
class Making {
 public:
  // A communicator that is not blocking has its handle at once, another one once it is usable.
  Making(std::shared_ptr<Communicator> communicator, ncclComm_t* to);
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  // Fails the communicator if it was not settled.
  ~Making();

  // Joins the other ranks of `id`.
  Outcome Join(const ncclUniqueId& id);

 private:
  Outcome Settle(Outcome outcome, Membership membership);
  const std::shared_ptr<Communicator> communicator_;
  ncclComm_t* const to_;
  bool settled_ = false;
};

}  // namespace hostgpu::nccl
