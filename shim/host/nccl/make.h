// Makes communicators. Any thread may use it.
#pragma once

#include <functional>
#include <memory>

#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {

// A communicator that is being made. Its handle is stored in `*to` for the caller.
class Making {
 public:
  // For a non-blocking communicator, stores the handle now; otherwise Join stores it when the
  // communicator is usable.
  Making(std::shared_ptr<Communicator> communicator, ncclComm_t* to);
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  // Makes the communicator fail if Join was not called.
  ~Making();

  // Waits for the other ranks of `id`, and makes the communicator usable or failed.
  Outcome Join(const ncclUniqueId& id);

 private:
  Outcome Settle(Outcome outcome, Membership membership);
  const std::shared_ptr<Communicator> communicator_;
  ncclComm_t* const to_;
  bool settled_ = false;
};

}  // namespace hostgpu::nccl
