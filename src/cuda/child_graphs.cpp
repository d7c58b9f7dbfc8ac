#include "cuda/child_graphs.h"

#include <algorithm>

#include "base/shared_library.h"

namespace ucudnn::cuda {
namespace {

// The driver's functions with the signatures of CUDA 12.0, in which edges carry no data.
struct GraphFunctions {
  decltype(&::cuGraphCreate) create = nullptr;
  decltype(&::cuGraphDestroy) destroy = nullptr;
  decltype(&::cuGraphDestroyNode) destroy_node = nullptr;
  decltype(&::cuGraphAddChildGraphNode) add_child = nullptr;
  decltype(&::cuGraphChildGraphNodeGetGraph) child_of = nullptr;
  decltype(&::cuGraphGetNodes) nodes = nullptr;
  decltype(&::cuGraphNodeGetType) type = nullptr;
  CUresult (*dependencies)(CUgraphNode, CUgraphNode*, size_t*) = nullptr;
};

const GraphFunctions* Load() {
  const Result<SharedLibrary> library = SharedLibrary::Open("libcuda.so.1");
  if (!library.ok()) return nullptr;
  const auto get =
      reinterpret_cast<decltype(&::cuGetProcAddress)>(library->Symbol("cuGetProcAddress_v2"));
  if (get == nullptr) return nullptr;
  auto functions = std::make_unique<GraphFunctions>();
  bool all = true;
  const auto load = [&](const char* name, auto& function) {
    void* address = nullptr;
    constexpr int kAbi = 12000;
    all &= get(name, &address, kAbi, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) == CUDA_SUCCESS &&
           address != nullptr;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  load("cuGraphCreate", functions->create);
  load("cuGraphDestroy", functions->destroy);
  load("cuGraphDestroyNode", functions->destroy_node);
  load("cuGraphAddChildGraphNode", functions->add_child);
  load("cuGraphChildGraphNodeGetGraph", functions->child_of);
  load("cuGraphGetNodes", functions->nodes);
  load("cuGraphNodeGetType", functions->type);
  load("cuGraphNodeGetDependencies", functions->dependencies);
  return all ? functions.release() : nullptr;
}

// Returns null if the driver lacks one of the functions.
const GraphFunctions* Functions() {
  static const GraphFunctions* const functions = Load();
  return functions;
}

}  // namespace

void GraphDeleter::operator()(CUgraph graph) const { Functions()->destroy(graph); }

Result<OwnedGraph> NewGraph() {
  const GraphFunctions* const functions = Functions();
  if (functions == nullptr) return Status::Error("the CUDA driver lacks functions of graphs");
  CUgraph graph = nullptr;
  if (functions->create(&graph, 0) != CUDA_SUCCESS) return Status::Error("no graph can be made");
  return OwnedGraph(graph);
}

Status AddInARow(CUgraph graph, const std::vector<OwnedGraph>& children) {
  const GraphFunctions* const functions = Functions();
  if (functions == nullptr) return Status::Error("the CUDA driver lacks functions of graphs");
  std::vector<CUgraphNode> added;
  added.reserve(children.size());
  for (const OwnedGraph& child : children) {
    CUgraphNode node = nullptr;
    const CUgraphNode* const last = added.empty() ? nullptr : &added.back();
    if (functions->add_child(&node, graph, last, added.empty() ? 0 : 1, child.get()) !=
        CUDA_SUCCESS) {
      while (!added.empty()) {
        functions->destroy_node(added.back());
        added.pop_back();
      }
      return Status::Error("a graph takes no child");
    }
    added.push_back(node);
  }
  return Status::Ok();
}

std::vector<CUgraph> ChildrenInARow(CUgraph graph) {
  const GraphFunctions* const functions = Functions();
  size_t count = 0;
  if (functions == nullptr || functions->nodes(graph, nullptr, &count) != CUDA_SUCCESS) return {};
  std::vector<CUgraphNode> nodes(count), before(count), row;
  if (functions->nodes(graph, nodes.data(), &count) != CUDA_SUCCESS || count != nodes.size()) {
    return {};
  }
  for (size_t i = 0; i < count; ++i) {
    CUgraphNodeType type;
    size_t dependencies = 0;
    if (functions->type(nodes[i], &type) != CUDA_SUCCESS || type != CU_GRAPH_NODE_TYPE_GRAPH ||
        functions->dependencies(nodes[i], nullptr, &dependencies) != CUDA_SUCCESS ||
        dependencies > 1) {
      return {};
    }
    if (dependencies == 1 &&
        functions->dependencies(nodes[i], &before[i], &dependencies) != CUDA_SUCCESS) {
      return {};
    }
  }
  // The first node of the row depends on no node. Each next node is the one that depends on
  // `last`.
  CUgraphNode last = nullptr;
  std::vector<CUgraph> children;
  while (children.size() < count) {
    if (std::count(before.begin(), before.end(), last) != 1) return {};
    const size_t next = std::find(before.begin(), before.end(), last) - before.begin();
    CUgraph child = nullptr;
    if (functions->child_of(nodes[next], &child) != CUDA_SUCCESS) return {};
    children.push_back(child);
    last = nodes[next];
  }
  return children;
}

}  // namespace ucudnn::cuda
