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
  // The handle is there at once where the communicator is not blocking, else once it is usable.
  Making(std::shared_ptr<Communicator> communicator, ncclComm_t* to);
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  // Fails where nothing settled it.
  ~Making();

  // Joins the others of `id`.
  Outcome Join(const ncclUniqueId& id);

 private:
  Outcome Settle(Outcome outcome, Membership membership);
  const std::shared_ptr<Communicator> communicator_;
  ncclComm_t* const to_;
  bool settled_ = false;
};

}  // namespace hostgpu::nccl
