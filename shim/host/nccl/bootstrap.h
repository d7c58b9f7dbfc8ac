// Lets the ranks of a communicator find each other. The process that makes the unique id creates
// the board, and every rank opens it as a file of that process. A rank takes its seat, waits for
// all other ranks, checks that they agree, and maps the memory of each. Thread-safe.
#pragma once

#include <atomic>
#include <vector>

#include "shim/host/nccl/board.h"
#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

// Makes an id, with which one communicator can be made as long as this process runs. The process
// keeps the board open until one of its own ranks has joined, or has failed to join.
Outcome NewUniqueId(ncclUniqueId* id);
bool IsUniqueId(const ncclUniqueId& id);

// Returns a random number that identifies this process; a forked child has another one.
uint64_t ThisProcess();

// Describes a rank that wants to join: rank number `rank` of `ranks`, with `device` of this
// process.
struct Place {
  int ranks;
  int rank;
  int device;
};

// The shared memory that a rank has once all ranks have joined.
struct Membership {
  Board board;
  std::vector<Mapping> memories;  // the mapped device memory of each rank
};

// Joins the communicator of `id` as `place`. Waits for all ranks without a time limit, until one of
// them dies or `cancelled` becomes true.
Outcome Join(const ncclUniqueId& id, const Place& place, const std::atomic<bool>& cancelled,
             Membership* membership);

}  // namespace hostgpu::nccl
