// Graphs. The nodes are in the order in which they were recorded or added, which is a valid order
// to run them. Every graph and every executable graph has its own nodes. A node of an executable
// graph never changes: an update replaces all nodes, and launches that have begun keep the former
// nodes.
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

// A piece of work for a stream, which runs once or becomes a node.
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  std::function<void()> run;    // a node's `run` is called at each launch, from any thread
  std::vector<uintptr_t> uses;  // addresses of the device memory that the work uses
  std::vector<Ticket> after{};  // tickets to wait for, besides earlier work of the stream
};

// Device memory that a node uses. `allocation` is the allocation's number, which a later allocation
// at the same address does not have.
struct Use {
  uintptr_t address;
  uint64_t allocation;
};
// Returns a Use for each of the `addresses` that is device memory.
std::vector<Use> UsesOf(const std::vector<uintptr_t>& addresses);

struct Node {
  CUgraphNodeType type;
  std::function<void()> run;
  std::vector<Use> uses;
  std::vector<const Node*> after;
  uint64_t kernel = 0;  // identifies the kernel of a node whose parameters may change

  CUgraphNode Handle() const {
    return reinterpret_cast<CUgraphNode>(const_cast<Node*>(this));  // a CUDA handle is not const
  }
};
using Nodes = std::vector<std::shared_ptr<Node>>;

struct Graph {
  Nodes nodes;
  std::vector<HeldObject> objects;
};

struct GraphExec {
  std::mutex mutex;  // guards the members below
  Nodes nodes;       // nodes of child graphs replace the child nodes
  std::vector<uint64_t> topology;
  std::vector<HeldObject> objects;
  Ticket last;  // ticket of the latest launch; launches of one executable graph never overlap
};

// Returns the first Use whose memory was freed after the node with that Use was recorded; null if
// there is none. On a GPU, a launch of a graph with such a Use would access memory that may have
// another owner.
const Use* FindStaleUse(const Nodes& nodes);

// Returns the function that a launch enqueues. The function runs the nodes one after the other, and
// holds `objects` until it is destroyed.
std::function<void()> RunAll(Nodes nodes, std::vector<HeldObject> objects);

}  // namespace hostgpu
