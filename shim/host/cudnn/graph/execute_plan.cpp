// Executes a plan: checks the pointers of the variant pack, and enqueues the work or adds it to a
// graph.
#include <cuda.h>

#include "shim/host/cudnn/device_memory.h"
#include "shim/host/cudnn/graph/plan.h"
#include "shim/host/cudnn/graph/plan_json.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/hostgpu.h"

namespace hostgpu {
namespace {

constexpr size_t kWorkspaceAlignment = 16;

// The operands of a call, found by their unique ids.
class Binding {
 public:
  Binding(const VariantPack& pack, Runs runs) : pack_(pack), runs_(runs) {}

  cudnnStatus_t Bind(const GraphOperand& operand) {
    void* pointer = pack_.PointerOf(operand.unique_id);
    HOSTGPU_REFUSE_IF(pointer == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    if (operand.by_value) {
      // The value is copied now, because the application may change its variable when the call has
      // returned.
      values_.emplace_back(static_cast<char*>(pointer),
                           static_cast<char*>(pointer) + operand.bytes);
      by_value_.push_back({operand.unique_id, values_.size() - 1});
      return CUDNN_STATUS_SUCCESS;
    }
    uses_.push_back(pointer);
    in_memory_.push_back({operand.unique_id, nullptr});
    return Resolve(operand.name, pointer, operand.bytes, static_cast<size_t>(operand.alignment),
                   runs_, &in_memory_.back().second);
  }

  cudnnStatus_t BindWorkspace(size_t bytes) {
    if (bytes == 0) return CUDNN_STATUS_SUCCESS;
    HOSTGPU_REFUSE_IF(pack_.workspace() == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    uses_.push_back(pack_.workspace());
    void* workspace = nullptr;
    const cudnnStatus_t status =
        Resolve("the workspace", pack_.workspace(), bytes, kWorkspaceAlignment, runs_, &workspace);
    workspace_ = static_cast<char*>(workspace);
    return status;
  }

  const std::vector<const void*>& uses() const { return uses_; }

  // Returns the operands. Operands that were passed by value are moved to `values`, which must
  // outlive the result.
  BoundOperands Operands(const Computation& computation, std::vector<std::vector<char>>* values) {
    *values = std::move(values_);
    for (const StagedTensor& tensor : computation.staged) {
      in_memory_.push_back({tensor.unique_id, workspace_ + tensor.offset});
    }
    return Locate(computation, *values);
  }

 private:
  BoundOperands Locate(const Computation& computation, std::vector<std::vector<char>>& values) {
    BoundOperands bound;
    bound.workspace = workspace_;
    if (computation.convolution) {
      for (int i = 0; i < 3; ++i) {
        bound.convolution[i] = Find(computation.convolution->unique_ids[i], values);
      }
    }
    for (const ProgramOperand& operand : computation.program.operands) {
      bound.program.push_back(Find(operand.unique_id, values));
    }
    for (const Computation& stage : computation.stages) {
      bound.stages.push_back(Locate(stage, values));
    }
    return bound;
  }

  void* Find(int64_t unique_id, std::vector<std::vector<char>>& values) const {
    for (const auto& [id, address] : in_memory_) {
      if (id == unique_id) return address;
    }
    for (const auto& [id, index] : by_value_) {
      if (id == unique_id) return values[index].data();
    }
    return nullptr;
  }

  const VariantPack& pack_;
  const Runs runs_;
  std::vector<const void*> uses_;
  std::vector<std::pair<int64_t, void*>> in_memory_;
  std::vector<std::pair<int64_t, size_t>> by_value_;
  std::vector<std::vector<char>> values_;
  char* workspace_ = nullptr;
};

}  // namespace

cudnnStatus_t ExecutionPlan::Bind(const VariantPack& pack, Runs runs, Bound* bound) const {
  const std::shared_ptr<const Computation> computation = config_.engine.graph.computation();
  HOSTGPU_REFUSE_IF(pack.overrides_shapes(), CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(DeviceFaulted(), CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  Binding binding(pack, runs);
  for (const GraphOperand& operand : computation->operands) {
    if (auto status = binding.Bind(operand)) return status;
  }
  const EngineSetup setup = config_.setup();
  if (auto status = binding.BindWorkspace(setup.workspace_bytes)) return status;

  struct Work {
    std::shared_ptr<const Computation> computation;
    EngineSetup setup;
    std::vector<std::vector<char>> values;
    BoundOperands operands;
  };
  const auto work = std::make_shared<Work>();
  work->computation = computation;
  work->setup = setup;
  work->operands = binding.Operands(*computation, &work->values);
  bound->uses = binding.uses();
  bound->run = [work] { RunComputation(*work->computation, work->setup, work->operands); };
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ExecutionPlan::Execute(cudnnHandle_t handle, const VariantPack& pack) const {
  HOSTGPU_REFUSE_IF(
      config_.engine.graph.computation()->convolution && hostgpuFaultDue("convolution"),
      CUDNN_STATUS_EXECUTION_FAILED);
  Bound bound;
  if (auto status = Bind(pack, WhenRuns(handle), &bound)) return status;
  return Enqueue(handle, bound.uses, std::move(bound.run));
}

uint64_t ExecutionPlan::Fingerprint() const {
  return std::hash<std::string>()(PlanToJson(config_, device_.profile())) | 1;
}

cudnnStatus_t ExecutionPlan::BindNative(const VariantPack& pack, Bound* bound) const {
  const Engine& engine = config_.engine;
  HOSTGPU_REFUSE_IF(!SupportsNativeGraphs(*engine.graph.computation(), engine.index),
                    CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API);
  HOSTGPU_REFUSE_IF(engine.graph.computation()->convolution && hostgpuFaultDue("native"),
                    CUDNN_STATUS_INTERNAL_ERROR);
  return Bind(pack, Runs::kAtReplay, bound);
}

cudnnStatus_t ExecutionPlan::Populate(cudaGraph_t graph, const VariantPack& pack) const {
  Bound bound;
  if (auto status = BindNative(pack, &bound)) return status;
  size_t nodes = 0;
  HOSTGPU_REFUSE_IF(cuGraphGetNodes(graph, nullptr, &nodes) != CUDA_SUCCESS || nodes > 0,
                    CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  HOSTGPU_REFUSE_IF(!AddToGraph(graph, bound.uses, Fingerprint(), std::move(bound.run)),
                    CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ExecutionPlan::Update(cudaGraph_t graph, const VariantPack& pack) const {
  Bound bound;
  if (auto status = BindNative(pack, &bound)) return status;
  HOSTGPU_REFUSE_IF(!UpdateInGraph(graph, bound.uses, Fingerprint(), std::move(bound.run)),
                    CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu
