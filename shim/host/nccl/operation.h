// The part of one rank in one group of calls: the messages that it offers to other ranks, and what
// it does with messages of other ranks. Plain data.
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
  uint64_t offset = 0;  // offset in the file of this rank's device memory
  uint64_t bytes = 0;
  uint64_t signature = 0;
  int call = 0;  // index of the call in the group
};

// One message from each rank in `from`, each of `bytes` bytes. With a `reduction`, the messages are
// reduced into `to`. Otherwise there is one message, which is copied to `to`.
struct Incoming {
  Kind kind = Kind::kPointToPoint;
  std::vector<int> from;
  char* to = nullptr;
  uint64_t bytes = 0;
  uint64_t signature = 0;
  int call = 0;
  std::optional<Reduction> reduction;  // set if the messages of all ranks are reduced
  // True if the same call also offers the memory at `to` to ranks. Then `to` is written only after
  // all these ranks have read it.
  bool in_place = false;
};

struct Operation {
  std::vector<Outgoing> out;  // messages on the same channel are in the order of the calls
  std::vector<Incoming> in;
  std::vector<const void*> uses;  // addresses of the device memory that the calls use
};

}  // namespace hostgpu::nccl
