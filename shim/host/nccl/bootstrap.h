// How the ranks of a communicator find each other: the process that makes the unique id makes the
// board, which every rank opens as a file of that process. A rank takes its seat there, waits for
// all others, checks that they agree, and opens the memory of each. Thread-safe.
#pragma once

#include <atomic>
#include <vector>

#include "shim/host/nccl/board.h"
#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

// Makes an id, with which one communicator can be made while this process lives. The process keeps
// the board open until one of its ranks has joined.
Outcome NewUniqueId(ncclUniqueId* id);
bool IsUniqueId(const ncclUniqueId& id);

// Returns a number that no other process has; a forked child has another one.
uint64_t ThisProcess();

// A rank that wants to join: the `rank`-th of `ranks`, with `device` of this process.
struct Place {
  int ranks;
  int rank;
  int device;
};

// A rank's communicator once all ranks have joined.
struct Membership {
  Board board;
  std::vector<Mapping> memories;  // the device memory of each rank
};

// Takes a place in the communicator of `id`. Waits for all ranks without a limit, unless one dies,
// or `cancelled` becomes true.
Outcome Join(const ncclUniqueId& id, const Place& place, const std::atomic<bool>& cancelled,
             Membership* membership);

}  // namespace hostgpu::nccl
