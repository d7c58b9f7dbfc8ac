// What an edge of the layer graph moves, and for how long. Source: DeePa, section 3, xfer(c_u,
// c_v); here a device is credited with what it already holds.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/partition.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// In elements, of one forward pass. The backward pass returns a gradient for every element that
// moved, along the same way: its traffic is the same with the directions exchanged.
struct Traffic {
  int64_t moved = 0;             // arriving at all devices together
  int64_t most_received = 0;     // by one device: a copy it keeps until the backward pass
  std::vector<int64_t> busiest;  // by level: most elements through one port in one direction
};

// Keeps scratch memory from call to call; one thread at a time.
class TrafficCounter {
 public:
  explicit TrafficCounter(const Machine& machine) : machine_(machine) {}

  // Worker i of `held` is on device held_first + i and has that box of the tensor; so for `needed`.
  // Boxes of `held` are disjoint and cover the tensor. An element needed on several devices is sent
  // to each.
  const Traffic& Count(const Parts& held, int held_first, const Parts& needed, int needed_first);

 private:
  void TabulateOverlaps(const Parts& held, const Parts& needed);
  int64_t Shared(const int* needed_digits, const int* held_digits) const;
  void CountPorts(int level, int held_first, int needed_first);

  const Machine& machine_;
  Traffic traffic_;
  // Per axis, [needed part * held parts + held part] and its sums over needed parts.
  std::array<std::vector<int64_t>, kTensorAxes> overlap_;
  std::array<std::vector<int64_t>, kTensorAxes> requested_;
  std::array<int, kTensorAxes> held_counts_ = {};
  std::vector<int> held_digits_;    // [worker][axis]
  std::vector<int> needed_digits_;  // [worker][axis]
  std::vector<int64_t> wanted_;     // by worker of `needed`: elements of its box
  std::vector<int64_t> offered_;    // by worker of `held`: elements asked of it, its own too
};

// What a reduction moves, in the backward pass: every worker has its part of the gradient of the
// output and needs the box it computed a partial sum of. In the forward pass the partial sums of
// those elements go the other way. `configuration`'s degree r is more than 1.
const Traffic& CountReduction(TrafficCounter& counter, const PlannedLayer& layer,
                              const ParallelConfiguration& configuration);

// The time that one direction (forward or backward) takes. All ports work at once: the busiest one
// for its bandwidth decides, after one latency of the outermost level used.
double TransferMs(const Machine& machine, const Traffic& traffic, int element_bytes);

}  // namespace ucudnn::planner
