// Execution plans in a process whose calls are split over ranks.
#include <algorithm>
#include <iterator>

#include "cuda/resources.h"
#include "cudnn/descriptors.h"
#include "interposer/graph/graph_plans.h"

namespace ucudnn::interposer {
namespace {

struct NamedOperation {
  cudnnBackendDescriptorType_t type;
  const char* name;  // what the user reads; in parentheses, the type as cuDNN names it
};
constexpr NamedOperation kNamedOperations[] = {
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "the positions of elements (GEN_INDEX)"},
    {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, "statistics of channels (GEN_STATS)"},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "a matrix product, as attention has (MATMUL)"},
    {CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
     "batch normalisation (BN_FINALIZE_STATISTICS)"},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "a reduction (REDUCTION)"},
    {CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
     "the gradient of batch normalisation (BN_BWD_WEIGHTS)"},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, "resampling (RESAMPLE_FWD)"},
    {CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR, "the gradient of resampling (RESAMPLE_BWD)"},
    {CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR, "a concatenation (CONCAT)"},
    {CUDNN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR, "a signal (SIGNAL)"},
    {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, "normalisation (NORM_FORWARD)"},
    {CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR,
     "the gradient of normalisation (NORM_BACKWARD)"},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "another shape (RESHAPE)"},
    {CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, "random numbers (RNG)"},
    {CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR, "a paged cache (PAGED_CACHE_LOAD)"},
    {CUDNN_BACKEND_OPERATION_BLOCK_SCALE_QUANTIZE_DESCRIPTOR,
     "scales of blocks (BLOCK_SCALE_QUANTIZE)"},
    {CUDNN_BACKEND_OPERATION_BLOCK_SCALE_DEQUANTIZE_DESCRIPTOR,
     "scales of blocks (BLOCK_SCALE_DEQUANTIZE)"},
    {CUDNN_BACKEND_OPERATION_EXPAND_BAND_MATRIX_DESCRIPTOR, "a band matrix (EXPAND_BAND_MATRIX)"},
    {CUDNN_BACKEND_OPERATION_CONTRACT_BAND_MATRIX_DESCRIPTOR,
     "a band matrix (CONTRACT_BAND_MATRIX)"},
    {CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, "attention (SDPA_FWD)"},
    {CUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR,
     "matrix products of experts (MOE_GROUPED_MATMUL)"},
    {CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR, "the gradient of attention (SDPA_BWD)"}};

constexpr const char* kNorms[] = {"layer", "instance", "batch", "group", "RMS", "adaptive layer"};

std::string NameOf(const WideOperation& operation) {
  const auto named =
      std::find_if(std::begin(kNamedOperations), std::end(kNamedOperations),
                   [&](const NamedOperation& one) { return one.type == operation.type; });
  // A newer cuDNN has the operation, but this release of ucudnn does not know it.
  if (named == std::end(kNamedOperations)) {
    return "an operation of type " + std::to_string(static_cast<int>(operation.type));
  }
  std::string name = named->name;
  const auto mode = static_cast<size_t>(operation.norm.value_or(CUDNN_LAYER_NORM));
  if (operation.norm && mode < std::size(kNorms)) {
    name.insert(name.find("normalisation"), std::string(kNorms[mode]) + " ");
  }
  return name;
}

// Returns why a plan that is neither pointwise nor a single convolution is not split.
std::string NotPointwise(const std::optional<DescriptorShadow>& shadow) {
  if (!shadow || !shadow->wide) {
    return "an operation graph that is not pointwise is not split over ranks";
  }
  return "an operation graph with " + NameOf(*shadow->wide) + " is not split over ranks";
}

// Returns why the convolution of a plan cannot be split; null if it can.
const char* WhyNotSplit(const PlanState* state) {
  if (state == nullptr)
    return "a convolution of the graph API that ucudnn cannot read is not split";
  const cudnn::FusedConvolution& convolution = state->own->convolution;
  const EngineId::Graph* const engine = convolution.engine.graph();
  if (engine == nullptr) return "a plan of an unknown engine is not split";
  if (!convolution.problem.HasEvenPads()) {
    return "a convolution whose padding differs before and behind is not split";
  }
  // The engine's text contains "shared" for a fused operand that neither has one value for each
  // channel nor the output's layout.
  if (engine->fusion.find("shared") != std::string::npos) {
    return "a convolution of the graph API is not split whose fused operations read a tensor that "
           "is "
           "neither one value for each channel nor laid out like the output";
  }
  if (!engine->fusion.empty() && convolution.beta != 0) {
    return "a convolution of the graph API with fused operations and beta is not split";
  }
  return nullptr;
}

}  // namespace

cudnnStatus_t GraphPlans::FinalizeSplit(cudnnBackendDescriptor_t descriptor) {
  try {
    const std::optional<DescriptorShadow> shadow = shadows_.Find(descriptor);
    if (shadow && shadow->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
      return CUDNN_STATUS_SUCCESS;
    }
    if (!splitter_.refusal().empty()) return splitter_.Refuse(splitter_.refusal());
    if (shadow && shadow->is_pointwise) return CUDNN_STATUS_SUCCESS;
    if (!shadow || shadow->kind == GraphKind::kOther || shadow->handle == nullptr) {
      return splitter_.RunsAlone() ? CUDNN_STATUS_SUCCESS : splitter_.Refuse(NotPointwise(shadow));
    }
    PlanState* const state = Decide(descriptor, *shadow);
    if (state != nullptr && state->refused()) return CUDNN_STATUS_NOT_SUPPORTED;
    if (const char* const why = WhyNotSplit(state)) {
      const bool names = state == nullptr && shadow->wide;
      return splitter_.Refuse(why + (names ? ": it has " + NameOf(*shadow->wide) : std::string()));
    }
    return Enter(descriptor, *state) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
  } catch (...) {
    return CUDNN_STATUS_ALLOC_FAILED;
  }
}

// Runs the plan on this rank's stripe. If the call has other pointers than the program's pack,
// executes the plan with a pack that ucudnn makes.
class GraphPlans::OwnSplitCall : public spatial::LocalCall {
 public:
  OwnSplitCall(GraphPlans& plans, const PlanState& state, const VariantPack& operands,
               cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack, const Session& session)
      : plans_(plans),
        state_(state),
        operands_(operands),
        plan_(plan),
        pack_(pack),
        session_(session) {}

  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override {
    const cudnn::FusedConvolution& graph = state_.own->convolution;
    const int64_t uids[] = {graph.x_uid, graph.w_uid, graph.y_uid};
    void* const pointers[] = {call.x, call.w, call.y};
    const auto pointer_of = [&](int i) -> void* {
      for (size_t role = 0; role < std::size(uids); ++role) {
        if (operands_.uids[i] == uids[role]) return pointers[role];
      }
      return operands_.pointers[i];
    };
    const int count = static_cast<int>(std::min(operands_.uid_count, operands_.pointer_count));
    bool same = true;
    for (int i = 0; i < count; ++i) same = same && operands_.pointers[i] == pointer_of(i);
    if (same) return plans_.ExecuteHere(call.handle, plan_, pack_);
    VariantPack moved = operands_;
    for (int i = 0; i < count; ++i) moved.pointers[i] = pointer_of(i);
    if (state_.wide_beta != 0) {
      // Here the output is in memory that ucudnn owns. The plan would add to the old content of
      // this memory, so the memory is set to 0 first.
      const CUresult cleared = session_.driver().cuMemsetD8Async(
          reinterpret_cast<CUdeviceptr>(call.*cudnn::OutputOf(call.operation)), 0,
          cudnn::ResultBytes(graph.problem), session_.stream());
      if (cleared != CUDA_SUCCESS) return CUDNN_STATUS_EXECUTION_FAILED;
    }
    cudnnBackendDescriptor_t pack = nullptr;
    cudnnStatus_t status = plans_.Create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    const auto set = [&](auto name, auto type, int64_t count, const void* values) {
      if (status == CUDNN_STATUS_SUCCESS) status = plans_.Set(pack, name, type, count, values);
    };
    set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, moved.pointer_count,
        moved.pointers.data());
    set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, moved.uid_count, moved.uids.data());
    set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &call.workspace);
    if (status == CUDNN_STATUS_SUCCESS) status = plans_.Finalize(pack);
    if (status == CUDNN_STATUS_SUCCESS) status = plans_.ExecuteHere(call.handle, plan_, pack);
    plans_.Destroy(pack);
    return status;
  }

 private:
  GraphPlans& plans_;
  const PlanState& state_;
  const VariantPack& operands_;
  const cudnnBackendDescriptor_t plan_, pack_;
  const Session& session_;
};

cudnnStatus_t GraphPlans::ExecuteSplit(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                       cudnnBackendDescriptor_t pack) {
  if (!splitter_.refusal().empty()) return splitter_.Refuse(splitter_.refusal());
  const PlanState* const state = FindPlan(plan);
  if (state == nullptr) {
    const std::optional<DescriptorShadow> shadow = shadows_.Find(plan);
    const bool is_local = splitter_.RunsAlone() || (shadow && shadow->is_pointwise);
    if (!is_local) return splitter_.Refuse(NotPointwise(shadow));
    return functions_.cudnnBackendExecute(handle, plan, pack);
  }
  // The plan may have been finalized while the program's calls were local to this rank.
  if (const char* const why = WhyNotSplit(state)) return splitter_.Refuse(why);
  Session* const session = sessions_.Of(handle);
  if (session == nullptr) return splitter_.Fail("a cuDNN handle is of no known device");
  const VariantPack* const operands = FindPack(pack);
  ConvolutionProblem problem = state->own->convolution.problem;
  if (operands == nullptr || !operands->plain) {
    return splitter_.RefuseCall(problem.operation, handle, session->context(),
                                "a convolution of the graph API is not split: its variant pack has "
                                "more than pointers and a workspace");
  }
  cudnn::FusedPointers fused;
  const std::optional<cudnn::ConvolutionCall> call = CallOf(handle, *state, *operands, fused);
  if (!call) return CUDNN_STATUS_BAD_PARAM;
  // Each rank may choose its own engine for the plan. The computations with received rows must have
  // the same math type on all ranks and be at least as exact as any of these engines.
  if (problem.type == DataType::kFloat) problem.math = MathType::kFma;
  OwnSplitCall own(*this, *state, *operands, plan, pack, *session);
  spatial::SplitCall split{problem, *call, session->context(), session->stream(),
                           session->Capturing()};
  split.plan = state->own.get();
  return splitter_.Run(split, own);
}

bool GraphPlans::IsRefusedNative(cudnnBackendDescriptor_t plan) {
  const std::optional<DescriptorShadow> shadow = shadows_.Find(plan);
  if (shadow && shadow->is_pointwise && splitter_.refusal().empty()) return false;
  splitter_.Refuse(!splitter_.refusal().empty() ? splitter_.refusal()
                   : FindPlan(plan) == nullptr
                       ? NotPointwise(shadow)
                       : "a convolution that is split over ranks has no native CUDA graph");
  return true;
}

}  // namespace ucudnn::interposer
