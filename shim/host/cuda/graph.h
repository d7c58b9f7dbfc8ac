// Graphs: nodes in the order in which they were recorded or added, in which they can also run.
// Every graph and every executable graph has its own nodes; those of an executable graph never
// change, so work in flight shares them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "shim/host/cuda/driver_api.h"
#include "shim/host/cuda/stream.h"
#include "shim/host/cuda/user_object.h"

namespace hostgpu {

// A piece of work for a stream: run now, or kept as a node.
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  std::function<void()> run;    // any number of times, from any thread, if it is kept
  std::vector<uintptr_t> uses;  // addresses of the device memory that it uses
  std::vector<Ticket> after{};  // tickets that it waits for, beside its stream
};

// Device memory that a node uses. The number distinguishes an allocation from a later one at its
// address.
struct Use {
  uintptr_t address;
  uint64_t allocation;
};
// Returns the uses of those `addresses` that are device memory.
std::vector<Use> UsesOf(const std::vector<uintptr_t>& addresses);

struct Node {
  CUgraphNodeType type;
  std::function<void()> run;
  std::vector<Use> uses;
  std::vector<const Node*> after;
  uint64_t kernel = 0;  // distinguishes kernels, if it was added with parameters that may change

  CUgraphNode Handle() const {
    return reinterpret_cast<CUgraphNode>(const_cast<Node*>(this));  // CUDA's handles have no const
  }
};
using Nodes = std::vector<std::shared_ptr<Node>>;

struct Graph {
  Nodes nodes;
  std::vector<HeldObject> objects;
};

struct GraphExec {
  std::mutex mutex;  // guards the members that follow
  Nodes nodes;       // with the nodes of child graphs in place of the child nodes
  std::vector<uint64_t> topology;
  std::vector<HeldObject> objects;
  Ticket last;  // of its latest launch: launches of one executable graph never overlap
};

// Returns the first use whose memory has been freed since the node was recorded; null if there is
// none. On a GPU such a graph would read and write memory that by now belongs to other code.
const Use* FindStaleUse(const Nodes& nodes);

// Returns the function of a launch. It runs the nodes one after another, and holds `objects` until
// it is destroyed.
std::function<void()> RunAll(Nodes nodes, std::vector<HeldObject> objects);

}  // namespace hostgpu
