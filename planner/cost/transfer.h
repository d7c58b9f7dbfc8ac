// The amount that an edge of the layer graph moves, and the time of the move. Source: DeePa,
// section 3, xfer(c_u, c_v); unlike in DeePa, a device does not receive what it already holds.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/partition.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// Counts elements of one forward pass. The backward pass returns a gradient for every element that
// moved, so its traffic is the same in the opposite direction.
struct Traffic {
  int64_t moved = 0;  // elements that arrive, summed over all devices
  // The largest number of elements that one device receives. The device keeps these copies until
  // the backward pass.
  int64_t most_received = 0;
  std::vector<int64_t> busiest;  // by level: most elements through one port in one direction
};

// Counts traffic, and keeps scratch memory from call to call. One thread at a time may use it.
class TrafficCounter {
 public:
  explicit TrafficCounter(const Machine& machine) : machine_(machine) {}

  // Worker i of `held` is on device held_first + i and has box i of the tensor. Worker i of
  // `needed` is on device needed_first + i and needs box i. Boxes of `held` are disjoint and cover
  // the tensor. An element that several devices need is sent to each of them.
  const Traffic& Count(const Parts& held, int held_first, const Parts& needed, int needed_first);

 private:
  void TabulateOverlaps(const Parts& held, const Parts& needed);
  int64_t Shared(const int* needed_digits, const int* held_digits) const;
  void CountPorts(int level, int held_first, int needed_first);

  const Machine& machine_;
  Traffic traffic_;
  // One table per axis. Entry [i * number of intervals of `held` + j] of overlap_ is the number of
  // elements that interval i of `needed` and interval j of `held` have in common. Entry j of
  // requested_ is the sum of these numbers over all i.
  std::array<std::vector<int64_t>, kTensorAxes> overlap_;
  std::array<std::vector<int64_t>, kTensorAxes> requested_;
  std::array<int, kTensorAxes> held_counts_ = {};
  std::vector<int> held_digits_;    // [worker][axis]
  std::vector<int> needed_digits_;  // [worker][axis]
  std::vector<int64_t> wanted_;     // by worker of `needed`: elements of its box
  // By worker of `held`: how many of its elements the workers of `needed` need. An element counts
  // once for every worker that needs it.
  std::vector<int64_t> offered_;
};

// Counts the elements that a reduction moves in the backward pass. Every worker holds the gradient
// of its own part of the output. It receives the gradient of the rest of the box for which it
// computed a partial sum. In the forward pass the partial sums of the same elements move in the
// opposite direction. REQUIRES: degree r of `configuration` is more than 1.
const Traffic& CountReduction(TrafficCounter& counter, const PlannedLayer& layer,
                              const ParallelConfiguration& configuration);

// Returns the time of one direction (forward or backward). All ports work at once, so the slowest
// port determines the time: its elements times `element_bytes`, divided by the bandwidth. Adds one
// latency of the outermost level that elements cross.
double TransferMs(const Machine& machine, const Traffic& traffic, int element_bytes);

}  // namespace ucudnn::planner
