// One rank's part in one group of calls, as messages: those that it offers to others, and what it
// makes of the messages of others. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "shim/host/nccl/board.h"
#include "shim/host/nccl/reduction.h"

namespace hostgpu::nccl {

// A message to one rank, which may be the sender itself.
struct Outgoing {
  Kind kind = Kind::kPointToPoint;
  int to = 0;
  uint64_t offset = 0;  // in the file of this rank's device memory
  uint64_t bytes = 0;
  uint64_t signature = 0;
  int call = 0;  // index of the call in the group
};

// One message of each rank in `from`, all of `bytes` bytes: they are copied, or reduced, to `to`.
struct Incoming {
  Kind kind = Kind::kPointToPoint;
  std::vector<int> from;
  char* to = nullptr;
  uint64_t bytes = 0;
  uint64_t signature = 0;
  int call = 0;
  std::optional<Reduction> reduction;  // over all ranks
  // This call also offers `to` to other ranks, so `to` is written only after all of them have read
  // it.
  bool in_place = false;
};

struct Operation {
  std::vector<Outgoing> out;  // messages on one channel are in order
  std::vector<Incoming> in;
  std::vector<const void*> uses;  // the device memory of all calls
};

}  // namespace hostgpu::nccl
