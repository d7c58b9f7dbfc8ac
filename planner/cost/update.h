// The time to combine the gradients of a layer's replicas. The replicas of each of the layer's
// WeightParts() combine an equal part of its parameters. Pure functions. Source: DeePa, section 3,
// update(c).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/cost/configuration.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

enum class UpdateModel {
  // DeePa's model: every replica in turn pushes its gradients and pulls parameters.
  kParameterServer,
  kRing,          // reduce-scatter and all-gather around one ring in device order
  kTree,          // reduction up a binomial tree, broadcast down
  kHierarchical,  // reduce-scatter level by level outwards, all-gather back inwards
  kOwner,         // every replica adds up one part, and sends the sum to the others
};

// Returns "parameter-server", "ring", "tree", "hierarchical" or "owner".
const char* UpdateName(UpdateModel model);
// An unknown name is an error that lists the known ones.
Result<UpdateModel> ParseUpdate(const std::string& name);

// Returns groups of devices that hold the same part of a layer's parameters: one group for each of
// its WeightParts, ordered by output channels and then by input channels. The devices of a group
// are in ascending order.
std::vector<std::vector<int>> ReplicaDevices(const ParallelConfiguration& configuration);

// Returns the time of one update. Let R replicas (R = n h w > 1, with degrees c = r = 1) have
// `bytes` of parameters each, and let one link of bandwidth B and latency L join them. Then the
// time is
//   parameter server     2 R bytes / B + 2 L
//   ring, hierarchical   2 (R-1)/R bytes / B + 2 L
//   tree                 2 ceil(log2 R) (bytes / B + L)
//   owner                2 (R-1)/R bytes / B + 2 L
// With several levels, a parameter server's bytes all cross the slowest link. In the other models
// the load of a port is the sum of the messages that cross it. A single replica needs no update.
double UpdateMs(const Machine& machine, UpdateModel model,
                const ParallelConfiguration& configuration, int64_t bytes);

// Returns the bytes that arrive at devices or a server in one step. With R = n h w replicas these
// are 2 * R * `bytes` for the parameter server, and 2 * (R - 1) * `bytes` for the other models.
int64_t UpdateBytes(UpdateModel model, const Degrees& degrees, int64_t bytes);

}  // namespace ucudnn::planner
