// Graphs that hold other graphs in a row: what becomes one native graph of several pieces.
// Thread-safe as far as the driver is: one thread at a time for a graph.
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

// An empty graph; an error where the driver lacks a function of these.
Result<OwnedGraph> NewGraph();

// Adds copies of `children` to `graph`, each behind the one before. On an error `graph` is as it
// was.
Status AddInARow(CUgraph graph, const std::vector<OwnedGraph>& children);

// The graphs that `graph` holds in a row, its own; empty where it holds anything else.
std::vector<CUgraph> ChildrenInARow(CUgraph graph);

}  // namespace ucudnn::cuda
