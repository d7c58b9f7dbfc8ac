// How the ranks of a communicator find each other. Whoever makes the unique id starts a thread that
// is their root: it takes nobody's word without the id's token, waits for all ranks, checks that
// they agree, hands everybody the board and the others' memory, and is gone. Thread-safe.
#pragma once

#include <atomic>
#include <vector>

#include "shim/host/nccl/bootstrap_messages.h"
#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

// One communicator can be made with an id, while this process lives.
Outcome NewUniqueId(ncclUniqueId* id);
bool IsUniqueId(const ncclUniqueId& id);

// A number that no other process has; a forked child has one of its own.
uint64_t ThisProcess();

// Who wants to join: the `rank`-th of `ranks`, with `device` of this process.
struct Place {
  int ranks;
  int rank;
  int device;
};

// What a rank knows of its communicator once all ranks know theirs.
struct Membership {
  Board board;
  std::vector<Member> members;
  std::vector<Mapping> memories;  // the device memory of each
};

// Takes its place in the communicator of `id`. Waits for all ranks, as long as that takes, unless
// one dies, or `cancelled` becomes true.
Outcome Join(const ncclUniqueId& id, const Place& place, const std::atomic<bool>& cancelled,
             Membership* membership);

}  // namespace hostgpu::nccl
