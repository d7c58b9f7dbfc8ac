// CUDA graphs that hold other graphs as child graphs in a row, each dependent on the previous one:
// several pieces become one native graph. Different threads may use different graphs at the same
// time; one graph is for one thread at a time.
#pragma once

#include <cuda.h>

#include <memory>
#include <vector>

#include "base/status.h"

namespace ucudnn::cuda {

struct GraphDeleter {
  void operator()(CUgraph graph) const;
};
using OwnedGraph = std::unique_ptr<CUgraph_st, GraphDeleter>;

// Makes an empty graph, which the caller owns. Fails if the driver lacks a function.
Result<OwnedGraph> NewGraph();

// Adds copies of `children` to `graph`, each dependent on the previous one. On an error `graph` is
// unchanged.
Status AddInARow(CUgraph graph, const std::vector<OwnedGraph>& children);

// Returns the child graphs that `graph` owns, in their order. Returns none if `graph` holds
// anything but child graphs in a row, or if the driver lacks a function.
std::vector<CUgraph> ChildrenInARow(CUgraph graph);

}  // namespace ucudnn::cuda
