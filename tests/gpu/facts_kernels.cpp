#include <cuda.h>

#include <iterator>
#include <map>

#include "base/shared_library.h"
#include "facts_plans.h"

namespace ucudnn::facts {
namespace {

constexpr size_t kCaptureBytes = size_t{4} << 30;
constexpr const char* kNodeTypes[] = {"kernel", "memcpy", "memset", "host", "graph", "empty"};

// Driver functions that read a graph. A function that the driver lacks is null.
struct Reader {
  decltype(&::cuGraphGetNodes) nodes = nullptr;
  decltype(&::cuGraphNodeGetType) type = nullptr;
  decltype(&::cuGraphChildGraphNodeGetGraph) child = nullptr;
  CUresult (*parameters)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*) = nullptr;
  CUresult (*function_name)(const char**, CUfunction) = nullptr;
  CUresult (*kernel_name)(const char**, CUkernel) = nullptr;
};

Reader DriversReader() {
  const SharedLibrary driver = Take(SharedLibrary::Open("libcuda.so.1"));
  Reader reader;
  const auto find = [&](auto& to, const char* name) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(driver.Symbol(name));
  };
  find(reader.nodes, "cuGraphGetNodes");
  find(reader.type, "cuGraphNodeGetType");
  find(reader.child, "cuGraphChildGraphNodeGetGraph");
  find(reader.parameters, "cuGraphKernelNodeGetParams_v2");
  find(reader.function_name, "cuFuncGetName");
  find(reader.kernel_name, "cuKernelGetName");
  return reader;
}

std::string NameOf(const Reader& reader, const CUDA_KERNEL_NODE_PARAMS& node) {
  const char* name = nullptr;
  if (node.func != nullptr && reader.function_name != nullptr &&
      reader.function_name(&name, node.func) == CUDA_SUCCESS) {
    return name;
  }
  if (node.kern != nullptr && reader.kernel_name != nullptr &&
      reader.kernel_name(&name, node.kern) == CUDA_SUCCESS) {
    return name;
  }
  return "";
}

struct Found {
  std::map<std::string, int> counts;
  Json kernels = Json::array();  // each is [name, grid, block, bytes of dynamic shared memory]
  std::string lacks;
};

void Read(const Reader& reader, CUgraph graph, Found& found) {
  size_t count = 0;
  if (reader.nodes == nullptr || reader.nodes(graph, nullptr, &count) != CUDA_SUCCESS) {
    found.lacks = "cuGraphGetNodes";
    return;
  }
  std::vector<CUgraphNode> nodes(count);
  if (count > 0) reader.nodes(graph, nodes.data(), &count);
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type = {};
    if (reader.type == nullptr || reader.type(node, &type) != CUDA_SUCCESS) {
      found.lacks = "cuGraphNodeGetType";
      return;
    }
    ++found.counts[static_cast<size_t>(type) < std::size(kNodeTypes) ? kNodeTypes[type]
                                                                     : std::to_string(type)];
    CUgraph child = nullptr;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && reader.child(node, &child) == CUDA_SUCCESS) {
      Read(reader, child, found);
    }
    if (type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    CUDA_KERNEL_NODE_PARAMS node_parameters = {};
    if (reader.parameters == nullptr || reader.parameters(node, &node_parameters) != CUDA_SUCCESS) {
      found.lacks = "cuGraphKernelNodeGetParams_v2";
      continue;
    }
    const auto& of = node_parameters;
    const std::string name = NameOf(reader, of);
    if (name.empty()) found.lacks = "cuFuncGetName";
    found.kernels.push_back({name,
                             {of.gridDimX, of.gridDimY, of.gridDimZ},
                             {of.blockDimX, of.blockDimY, of.blockDimZ},
                             of.sharedMemBytes});
  }
}

// Captures one execution of the plan. Returns its graph, or null if the plan cannot be captured.
cudaGraph_t Captured(const Device& device, const Plan& plan, const cudnn::BackendDescriptor& pack) {
  Check(cudaStreamBeginCapture(device.stream(), cudaStreamCaptureModeRelaxed),
        "cudaStreamBeginCapture");
  const cudnnStatus_t status =
      cudnnBackendExecute(device.handle(), plan.descriptor.get(), pack.get());
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(device.stream(), &graph);
  if (status == CUDNN_STATUS_SUCCESS && ended == cudaSuccess) return graph;
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
  return nullptr;
}

}  // namespace

void Kernels(const Options& options) {
  const Device device;
  const Memory arena(options.tiny ? kTinyArenaBytes : kCaptureBytes);
  const size_t room = options.tiny ? kTinyArenaBytes : kCaptureBytes;
  const Reader reader = DriversReader();
  Cases cases(options);
  std::vector<NamedGraph> graphs = NamedGraphs(options.tiny);
  if (options.tiny) graphs.resize(9);
  for (const NamedGraph& named : graphs) {
    cases.Run(named.name, [&]() -> Json {
      const cudnn::PlanDevice of{device.handle(), nullptr};
      const size_t tensors = named.TensorBytes();
      if (tensors > room) return {{"too large", tensors}};
      const test::Graph graph = named.Build(of);
      const Operands operands = Placed(named, arena.at(0));
      Json plans = Json::array();
      for (const auto& configuration : Configurations(graph.get(), of, CUDNN_HEUR_MODE_A)) {
        Json row = configuration.Described();
        try {
          if (cases.IsLate()) throw Failure("no time left");
          const Plan plan = Finalized(of, configuration);
          if (tensors + plan.workspace_bytes > room) throw Failure("its workspace is too large");
          const auto pack = Pack(operands, arena.at(tensors));
          cudaGraph_t captured = Captured(device, plan, pack);
          if (captured == nullptr) {
            row["captured"] = "after a first run";
            Execute(device, plan, pack);
            device.Wait();
            captured = Captured(device, plan, pack);
          }
          if (captured == nullptr) throw Failure("it cannot be captured");
          Found found;
          Read(reader, captured, found);
          cudaGraphDestroy(captured);
          row["nodes"] = found.counts;
          row["kernels"] = found.kernels;
          if (!found.lacks.empty()) row["lacks"] = found.lacks;
        } catch (const Failure& failure) {
          row["failed"] = failure.what();
        }
        plans.push_back(row);
      }
      return {{"plans", plans}};
    });
  }
}

}  // namespace ucudnn::facts
