// A layout spelled out: which device computes which box of which tensor, what it needs for that,
// what moves between devices, and which devices keep the same parameters. Pure functions.
#pragma once

#include <vector>

#include "planner/cost/configuration.h"
#include "planner/cost/partition.h"

namespace ucudnn::planner {

struct DeviceBox {
  int device = 0;
  Box box;

  bool operator==(const DeviceBox&) const = default;
};

// What each device has of the layer's output, partial sums added up: disjoint boxes that cover it.
std::vector<DeviceBox> OutputBoxes(const PlannedLayer& layer,
                                   const ParallelConfiguration& configuration);

// The box of the output of which a device computes the sum over `input_channels` only.
struct PartialBox {
  int device = 0;
  Box box;
  Interval input_channels;
};

// Empty where the degree r is 1. Devices with the same box add their sums up; each keeps its part
// in OutputBoxes.
std::vector<PartialBox> PartialBoxes(const PlannedLayer& layer,
                                     const ParallelConfiguration& configuration);

// How far a box reaches beyond a part, in elements before and behind it.
struct Halo {
  int64_t before = 0;
  int64_t after = 0;

  bool operator==(const Halo&) const = default;
};

struct NeededBox {
  int device = 0;
  Box box;
  // Beyond the device's part of the input, were that divided as the output is; of axes that are not
  // divided: nothing.
  Halo h;
  Halo w;
};

// What each device needs of input `input`; devices that need nothing are left out.
std::vector<NeededBox> NeededBoxes(const PlannedLayer& layer, int input,
                                   const ParallelConfiguration& configuration);

// In the forward pass; in the backward pass the gradient of the same box returns.
struct Transfer {
  int from = 0;
  int to = 0;
  Box box;
};

// In the forward pass a device sends partial sums of the box to the one that adds them up; in the
// backward pass the gradient of the same box returns.
std::vector<Transfer> ReductionTransfers(const PlannedLayer& layer,
                                         const ParallelConfiguration& configuration);

// What moves of input `input` of `consumer` to where it is needed, from where its producer has it.
std::vector<Transfer> Transfers(const PlannedLayer& consumer, int input,
                                const ParallelConfiguration& from, const ParallelConfiguration& to);

// Devices, rising, that hold the same parameters, those from `input_channels` (all of them where
// the degree r is 1) to the output channels `channels`, and sum up their gradients. Empty where
// there are none, or each is on one device only.
struct ReplicaGroup {
  std::vector<int> devices;
  Interval channels;
  Interval input_channels;
};

std::vector<ReplicaGroup> ReplicaGroups(const PlannedLayer& layer,
                                        const ParallelConfiguration& configuration);

}  // namespace ucudnn::planner
