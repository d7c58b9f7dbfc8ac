// Makes CUDA graphs of one layer's convolutions with NVIDIA's cudnn-frontend, without capturing:
// forward alone, forward with bias and ReLU fused, backward_data and backward_filter. For each, it
// takes the first plan with the behavior note SUPPORTS_CUDA_GRAPH_NATIVE_API, and instantiates and
// launches the plan's graph. Then it updates the graph with other operands and another workspace,
// and launches it again. The program knows nothing of ucudnn.
//
//   native_step fp32|fp16|bf16 BATCH
//
// For each convolution it prints the checksums of both results, the workspace, and the number of
// kernels in the CUDA graph; or that no plan becomes a CUDA graph. It exits with 1 if a result
// differs from plain loops.
#include "frontend_layer.h"

namespace {

using namespace layer;

// Returns the number of kernels in a CUDA graph, including its child graphs.
size_t Kernels(cudaGraph_t graph) {
  size_t count = 0, kernels = 0;
  Check(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  Check(cudaGraphGetNodes(graph, nodes.data(), &count));
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    Check(cudaGraphNodeGetType(node, &type));
    cudaGraph_t child = nullptr;
    if (type == cudaGraphNodeTypeGraph) Check(cudaGraphChildGraphNodeGetGraph(node, &child));
    kernels += child == nullptr ? 1 : Kernels(child);
  }
  return kernels;
}

struct Workspace {
  explicit Workspace(int64_t bytes) {
    if (bytes > 0) Check(cudaMalloc(&memory, static_cast<size_t>(bytes)));
  }
  ~Workspace() { cudaFree(memory); }
  void* memory = nullptr;
};

class NativeGraph : public Graph {
 public:
  using Graph::Graph;

  // Returns false if no plan becomes a CUDA graph.
  bool Build() {
    Check(graph_.validate());
    Check(graph_.build_operation_graph(handle_));
    Check(graph_.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
    graph_.select_behavior_notes({fe::BehaviorNote_t::SUPPORTS_CUDA_GRAPH_NATIVE_API});
    if (graph_.check_support().is_bad()) return false;
    Check(graph_.build_plans());
    Check(graph_.get_workspace_size(bytes));
    return true;
  }
  // Launches the CUDA graph with its original tensors, then updated to the tensors `others`.
  void RunTwice(const std::vector<const Tensor*>& others) {
    const Workspace first(bytes), second(bytes);
    cudaGraph_t graph;
    Check(cudaGraphCreate(&graph, 0));
    Check(graph_.populate_cuda_graph(handle_, pointers_, first.memory, graph));
    kernels = Kernels(graph);
    cudaGraphExec_t executable;
    Check(cudaGraphInstantiate(&executable, graph, 0));
    Launch(executable);
    for (size_t i = 0; i < others.size(); ++i) {
      pointers_[static_cast<int64_t>(i) + 1] = others[i]->device;
    }
    Check(graph_.update_cuda_graph(handle_, pointers_, second.memory, graph));
    cudaGraphExecUpdateResultInfo info{};
    Check(cudaGraphExecUpdate(executable, graph, &info));
    Launch(executable);
    Check(cudaGraphExecDestroy(executable));
    Check(cudaGraphDestroy(graph));
  }

  int64_t bytes = 0;
  size_t kernels = 0;

 private:
  static void Launch(cudaGraphExec_t executable) {
    Check(cudaGraphLaunch(executable, nullptr));
    Check(cudaDeviceSynchronize());
  }
};

// The operands of all convolutions, and their results computed by plain loops.
struct Operands {
  Operands(const Layer& layer, uint32_t seed)
      : x(layer, layer.batch, kChannels, layer.size),
        w(layer, kFilters, kChannels, kTap),
        bias(layer, 1, kFilters, 1),
        dy(layer, layer.batch, kFilters, layer.size),
        y(layer, layer.batch, kFilters, layer.size),
        fused(layer, layer.batch, kFilters, layer.size),
        dx(layer, layer.batch, kChannels, layer.size),
        dw(layer, kFilters, kChannels, kTap) {
    for (Tensor* input : {&x, &w, &bias, &dy}) input->Fill(seed++);
    ForEachProduct(layer, [&](const Product& p) {
      y.At(p.n, p.k, p.o) += x.At(p.n, p.c, p.i) * w.At(p.k, p.c, p.t);
      dx.At(p.n, p.c, p.i) += dy.At(p.n, p.k, p.o) * w.At(p.k, p.c, p.t);
      dw.At(p.k, p.c, p.t) += dy.At(p.n, p.k, p.o) * x.At(p.n, p.c, p.i);
    });
    for (size_t i = 0; i < y.values.size(); ++i) {
      const float value = y.values[i] + bias.values[i % kFilters];
      fused.values[i] = value > 0 ? value : 0;
    }
  }
  Tensor x, w, bias, dy, y, fused, dx, dw;
};

// Runs the graph with the tensors `first`, then with the tensors `second`, and prints the results.
// Returns whether they are right. Both lists are in the order of the graph's unique ids, and the
// last tensor is the result.
bool RunAndReport(const std::string& name, NativeGraph& graph,
                  const std::vector<const Tensor*>& first,
                  const std::vector<const Tensor*>& second) {
  if (!graph.Build()) {
    std::printf("%s becomes no CUDA graph\n", name.c_str());
    return true;
  }
  graph.RunTwice(second);
  std::printf("%s kernels %zu\n", name.c_str(), graph.kernels);
  const bool exact = first.back()->Report((name + "_launched").c_str(), graph.bytes);
  return second.back()->Report((name + "_updated").c_str(), graph.bytes) && exact;
}

bool Step(cudnnHandle_t handle, const Layer& layer) {
  const Operands a(layer, 1), b(layer, 11);
  NativeGraph forward(handle, layer), fused(handle, layer), data(handle, layer),
      filter(handle, layer);
  {
    const auto x = forward.Input("x", a.x), w = forward.Input("w", a.w);
    forward.Output(forward.Forward(x, w), a.y);
  }
  {
    const auto x = fused.Input("x", a.x), w = fused.Input("w", a.w),
               bias = fused.Input("bias", a.bias);
    fused.Output(fused.Relu(fused.Add(fused.Forward(x, w), bias)), a.fused);
  }
  {
    const auto dy = data.Input("dy", a.dy), w = data.Input("w", a.w);
    data.Output(data.BackwardData(dy, w), a.dx);
  }
  {
    const auto dy = filter.Input("dy", a.dy), x = filter.Input("x", a.x);
    filter.Output(filter.BackwardFilter(dy, x), a.dw);
  }
  bool exact = RunAndReport("forward", forward, {&a.x, &a.w, &a.y}, {&b.x, &b.w, &b.y});
  exact = RunAndReport("fused", fused, {&a.x, &a.w, &a.bias, &a.fused},
                       {&b.x, &b.w, &b.bias, &b.fused}) &&
          exact;
  exact = RunAndReport("backward_data", data, {&a.dy, &a.w, &a.dx}, {&b.dy, &b.w, &b.dx}) && exact;
  return RunAndReport("backward_filter", filter, {&a.dy, &a.x, &a.dw}, {&b.dy, &b.x, &b.dw}) &&
         exact;
}

}  // namespace

int main(int argc, char** argv) {
  const auto type = argc == 3 ? Types().find(argv[1]) : Types().end();
  const int64_t batch = argc == 3 ? std::atoll(argv[2]) : 0;
  if (type == Types().end() || batch < 1) {
    std::fprintf(stderr, "usage: native_step fp32|fp16|bf16 BATCH\n");
    return 2;
  }
  cudnnHandle_t handle;
  Check(cudnnCreate(&handle));
  const bool exact = Step(handle, {type->second, 2, batch, 12});
  Check(cudnnDestroy(handle));
  return exact ? 0 : 1;
}
