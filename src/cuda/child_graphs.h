// Makes and reads CUDA graphs that consist of child graphs in a row: each child graph depends on
// the previous one. In this way several pieces become one native graph. Only one thread at a time
// may use a graph; different threads may use different graphs at the same time.
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

// Makes an empty graph, which the caller owns. Fails if the driver lacks a function that this file
// uses.
Result<OwnedGraph> NewGraph();

// Adds copies of `children` to `graph`. Each copy depends on the previous one. On an error `graph`
// is unchanged.
Status AddInARow(CUgraph graph, const std::vector<OwnedGraph>& children);

// Returns the child graphs that `graph` owns, in their order. Returns an empty list if `graph` has
// other nodes, if its child graphs are not in a row, or if the driver lacks a function.
std::vector<CUgraph> ChildrenInARow(CUgraph graph);

}  // namespace ucudnn::cuda
