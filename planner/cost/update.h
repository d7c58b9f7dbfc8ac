// How long it takes to bring the gradients of a layer's replicas together. Pure functions. Source:
// DeePa, section 3, update(c); all models move whole parameters, divided by the channel degree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/cost/configuration.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

enum class UpdateModel {
  kParameterServer,  // DeePa's: every replica in turn pushes its gradients and pulls parameters
  kRing,             // reduce-scatter and all-gather around one ring in device order
  kTree,             // reduction up a binomial tree, broadcast down
  kHierarchical,     // reduce-scatter level by level outwards, all-gather back inwards
  kOwner,            // every replica adds up one part, and gives the sum to all others
};

const char* UpdateName(UpdateModel model);  // parameter-server, ring, tree, hierarchical, owner
// An unknown name is an error that lists the known ones.
Result<UpdateModel> ParseUpdate(const std::string& name);

// Devices that hold the same part of a layer's parameters, rising; one list for each of its
// WeightParts, output channels before input channels.
std::vector<std::vector<int>> ReplicaDevices(const ParallelConfiguration& configuration);

// For r replicas (n h w) of `bytes` of parameters behind one link of bandwidth B and latency L,
// with c = r = 1 of degrees: parameter server 2 r bytes / B + 2 L, ring 2 (r-1)/r bytes / B + 2
// (r-1) L, tree 2 ceil(log2 r) (bytes / B + L), owner 2 (r-1)/r bytes / B + 2 L. Over several
// levels every port carries what crosses it. A single replica needs no update.
double UpdateMs(const Machine& machine, UpdateModel model,
                const ParallelConfiguration& configuration, int64_t bytes);

// Bytes that arrive at devices or a server in one step: 2 r bytes of the parameter server, 2 (r-1)
// bytes of the others.
int64_t UpdateBytes(UpdateModel model, const Degrees& degrees, int64_t bytes);

}  // namespace ucudnn::planner
