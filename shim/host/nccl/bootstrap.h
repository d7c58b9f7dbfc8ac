// How the ranks of a communicator find each other: whoever makes the unique id makes the board,
// which every rank opens as a file of that process. A rank takes its seat there, waits for all
// others, checks that they agree, and opens the memory of each. Thread-safe.
#pragma once

#include <atomic>
#include <vector>

#include "shim/host/nccl/board.h"
#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

// One communicator can be made with an id, while this process lives. It keeps the board open until
// a rank of this process has joined.
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
  std::vector<Mapping> memories;  // the device memory of each
};

// Takes its place in the communicator of `id`. Waits for all ranks, as long as that takes, unless
// one dies, or `cancelled` becomes true.
Outcome Join(const ncclUniqueId& id, const Place& place, const std::atomic<bool>& cancelled,
             Membership* membership);

}  // namespace hostgpu::nccl
