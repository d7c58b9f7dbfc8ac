// A layout in detail: the box of each tensor that a device computes, the boxes of inputs that it
// needs to compute it, the transfers between devices, and the devices that keep the same
// parameters. Pure functions.
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

// Returns each device's box of the layer's output after partial sums are added up. The boxes are
// disjoint and cover the output.
std::vector<DeviceBox> OutputBoxes(const PlannedLayer& layer,
                                   const ParallelConfiguration& configuration);

// A box of the output for which a device computes a partial sum, over `input_channels` only.
struct PartialBox {
  int device = 0;
  Box box;
  Interval input_channels;
};

// Returns the boxes of partial sums; empty if the degree r is 1. Devices with the same box add up
// their sums; each keeps its part according to OutputBoxes.
std::vector<PartialBox> PartialBoxes(const PlannedLayer& layer,
                                     const ParallelConfiguration& configuration);

// How far a box extends beyond a part, in elements before and after the part.
struct Halo {
  int64_t before = 0;
  int64_t after = 0;

  bool operator==(const Halo&) const = default;
};

struct NeededBox {
  int device = 0;
  Box box;
  // How far `box` extends beyond the part of the input that the device would have if the input were
  // divided in the same way as the output. The halo is 0 along axes that are not divided.
  Halo h;
  Halo w;
};

// Returns the box of input `input` that each device needs; devices that need nothing are left out.
std::vector<NeededBox> NeededBoxes(const PlannedLayer& layer, int input,
                                   const ParallelConfiguration& configuration);

// A transfer of the forward pass. In the backward pass the gradient of the same box moves from `to`
// to `from`.
struct Transfer {
  int from = 0;
  int to = 0;
  Box box;
};

// Lists the transfers of a reduction in the forward pass: each device sends its partial sums of a
// box to the device that adds them up.
std::vector<Transfer> ReductionTransfers(const PlannedLayer& layer,
                                         const ParallelConfiguration& configuration);

// Lists the transfers of input `input` of `consumer`, from the devices that hold the producer's
// output to the devices that need it.
std::vector<Transfer> Transfers(const PlannedLayer& consumer, int input,
                                const ParallelConfiguration& from, const ParallelConfiguration& to);

// Devices, in ascending order, that hold the same parameters and sum up their gradients. The
// parameters lead from the input channels `input_channels` (all of them if the degree r is 1) to
// the output channels `channels`. ReplicaGroups returns no groups for a layer without parameters,
// or if each parameter is on one device only.
struct ReplicaGroup {
  std::vector<int> devices;
  Interval channels;
  Interval input_channels;
};

std::vector<ReplicaGroup> ReplicaGroups(const PlannedLayer& layer,
                                        const ParallelConfiguration& configuration);

}  // namespace ucudnn::planner
