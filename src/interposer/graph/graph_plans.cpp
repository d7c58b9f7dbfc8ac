#include "interposer/graph/graph_plans.h"

#include <algorithm>

#include "base/log.h"
#include "interposer/core/runner.h"

namespace ucudnn::interposer {
namespace {

// Runs the whole mini-batch through the real library, with the application's own pack. `whole` is
// the plan that PlanState::Undivided returns.
class GraphFallbacks : public CallFallbacks {
 public:
  GraphFallbacks(const cudnn::Functions& functions, cudnnHandle_t handle,
                 cudnnBackendDescriptor_t whole, cudnnBackendDescriptor_t pack)
      : functions_(functions), handle_(handle), whole_(whole), pack_(pack) {}

  cudnnStatus_t Undivided(bool) override { return Real(); }
  cudnnStatus_t Real() override { return functions_.cudnnBackendExecute(handle_, whole_, pack_); }
  cudnnStatus_t Refused() override { return CUDNN_STATUS_NOT_SUPPORTED; }

 private:
  const cudnn::Functions& functions_;
  const cudnnHandle_t handle_;
  const cudnnBackendDescriptor_t whole_, pack_;
};

}  // namespace

cudnnStatus_t GraphPlans::Create(cudnnBackendDescriptorType_t type,
                                 cudnnBackendDescriptor_t* descriptor) {
  const cudnnStatus_t status = functions_.cudnnBackendCreateDescriptor(type, descriptor);
  if (status != CUDNN_STATUS_SUCCESS || descriptor == nullptr) return status;
  if (type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    OpenPack(*descriptor);
    return status;
  }
  try {
    shadows_.OnCreate(*descriptor, type);
  } catch (...) {
    // Out of memory: ucudnn leaves plans that are made from the descriptor unchanged.
  }
  return status;
}

std::optional<DescriptorShadow> GraphPlans::Forget(cudnnBackendDescriptor_t descriptor) {
  std::optional<DescriptorShadow> shadow = shadows_.OnDestroy(descriptor);
  Plans* const plans = plans_.load(std::memory_order_acquire);
  if (shadow && shadow->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && plans != nullptr) {
    plans->Remove(descriptor);
  }
  return shadow;
}

cudnnStatus_t GraphPlans::Destroy(cudnnBackendDescriptor_t descriptor) {
  if (!CloseOwnPack(descriptor)) {
    const std::optional<DescriptorShadow> shadow = Forget(descriptor);
    if (!shadow) ClosePack(descriptor);
    if (shadow && shadow->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR &&
        shadows_.DestroyLater(descriptor)) {
      return CUDNN_STATUS_SUCCESS;
    }
  }
  return functions_.cudnnBackendDestroyDescriptor(descriptor);
}

cudnnStatus_t GraphPlans::Initialize(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = functions_.cudnnBackendInitialize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (VariantPack* pack = FindPack(descriptor)) {
    pack->Clear();
    return status;
  }
  try {
    const std::optional<DescriptorShadow> shadow = Forget(descriptor);
    if (shadow) shadows_.OnCreate(descriptor, shadow->type);
  } catch (...) {
    // Out of memory: ucudnn leaves plans that are made from the descriptor unchanged.
  }
  return status;
}

cudnnStatus_t GraphPlans::Set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  const cudnnStatus_t status =
      functions_.cudnnBackendSetAttribute(descriptor, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (name >= CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS && name < CUDNN_ATTR_LAYOUT_INFO_TENSOR_UID) {
    if (VariantPack* pack = FindPack(descriptor)) pack->OnSet(name, count, values);
  } else {
    shadows_.OnSet(descriptor, name, count, values);
  }
  return status;
}

cudnnStatus_t GraphPlans::Get(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                              void* values) {
  if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
    return BehaviorNotes(descriptor, type, requested, count, values);
  }
  int64_t given = 0;
  int64_t* const counted = count != nullptr ? count : &given;
  const cudnnStatus_t status =
      functions_.cudnnBackendGetAttribute(descriptor, name, type, requested, count, values);
  if (status != CUDNN_STATUS_SUCCESS || values == nullptr || requested < 1) return status;
  if (count == nullptr) given = requested;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    const PlanState* const state = FindPlan(descriptor);
    if (state != nullptr && state->promises_other()) {
      *static_cast<int64_t*>(values) = static_cast<int64_t>(state->decision.promised_bytes);
    }
  } else if (name == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) {
    if (const std::optional<size_t> promised = PromiseOf(descriptor)) {
      *static_cast<int64_t*>(values) = static_cast<int64_t>(*promised);
    }
  } else {
    shadows_.OnGet(descriptor, name, std::min(*counted, requested), values);
  }
  return status;
}

std::optional<size_t> GraphPlans::PromiseOf(cudnnBackendDescriptor_t configuration) {
  const std::optional<DescriptorShadow> shadow = shadows_.Find(configuration);
  const bool convolution = shadow && (shadow->kind == GraphKind::kConvolution ||
                                      shadow->kind == GraphKind::kUndividable);
  if (!convolution || shadow->handle == nullptr) return std::nullopt;
  try {
    // If there is neither a limit nor a workspace plan, an execution plan reports its own need.
    Session* const session = sessions_.Of(shadow->handle);
    const bool limited = session != nullptr && (rules_.UserLimit(*session) != kNoLimit ||
                                                !options_.workspace_plan.empty());
    if (!limited) return std::nullopt;
    const auto plan = PlanOf(*session, configuration, shadow->handle);
    if (!plan.ok()) return std::nullopt;
    const PlanState* const state = Decide(plan->get(), *shadow);
    if (state == nullptr || !state->promises_other()) return std::nullopt;
    return state->decision.promised_bytes;
  } catch (...) {
    return std::nullopt;
  }
}

cudnnStatus_t GraphPlans::Finalize(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = functions_.cudnnBackendFinalize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS || FindOwnPack(descriptor) != nullptr) return status;
  if (splitter_.splits() && FindPack(descriptor) == nullptr) return FinalizeSplit(descriptor);
  try {
    const std::optional<DescriptorShadow> shadow = shadows_.Find(descriptor);
    if (!shadow || shadow->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        shadow->kind == GraphKind::kOther || shadow->handle == nullptr) {
      return status;
    }
    PlanState* const state = Decide(descriptor, *shadow);
    if (state == nullptr) return status;
    if (state->refused()) return CUDNN_STATUS_NOT_SUPPORTED;
    // If the table is full, the plan runs unchanged, since nothing was promised for it yet. If it
    // exceeds a strict limit, it is refused.
    if (!Enter(descriptor, *state)) {
      const PlanState* const beyond = LeaveUnremembered(descriptor, state->limit_bytes);
      if (beyond != nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
    }
  } catch (...) {
    WarnOnce("memory", "out of host memory: a plan is left alone");
    if (options_.mode == Mode::kOn && ForbidsSome()) return CUDNN_STATUS_ALLOC_FAILED;
  }
  return status;
}

bool GraphPlans::Enter(cudnnBackendDescriptor_t plan, PlanState& state) {
  Plans* plans = plans_.load(std::memory_order_acquire);
  if (plans == nullptr) {
    auto made = std::make_unique<Plans>();
    if (plans_.compare_exchange_strong(plans, made.get(), std::memory_order_acq_rel)) {
      plans = made.release();
    }
  }
  if (!plans->Insert(plan, &state)) {
    reporter_.TooManyKernels();
    return false;
  }
  if (state.budget != nullptr) {
    state.budget->Ask(state.budget_kernel());
  }
  return true;
}

PlanState* GraphPlans::FindPlan(cudnnBackendDescriptor_t plan) const {
  const Plans* const plans = plans_.load(std::memory_order_acquire);
  PlanState* const state = plans == nullptr ? nullptr : plans->Find(plan);
  return state == nullptr ? nullptr : state->Latest();
}

cudnnStatus_t GraphPlans::Execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return splitter_.splits() ? ExecuteSplit(handle, plan, pack) : ExecuteHere(handle, plan, pack);
}

cudnnStatus_t GraphPlans::ExecuteHere(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                      cudnnBackendDescriptor_t pack) {
  PlanState* state = FindPlan(plan);
  if (state == nullptr) return functions_.cudnnBackendExecute(handle, plan, pack);
  if (state->budget != nullptr) Follow(handle, *state);
  if (state->IsDue(state->record->calls, EpochOf(state->budget))) state = Improve(handle, *state);
  Session* const session = SessionOf(handle, *state);
  Count(session, handle, *state);
  if (state->schedule != nullptr) {
    const MutexLock lock(*state->executing);
    return RunPieces(session, handle, plan, pack, *state);
  }
  return WithUndivided(state, plan, [&](cudnnBackendDescriptor_t whole) {
    return functions_.cudnnBackendExecute(handle, whole, pack);
  });
}

cudnnStatus_t GraphPlans::ExecuteUndivided(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                           cudnnBackendDescriptor_t pack) noexcept {
  if (splitter_.splits()) {
    return splitter_.Fail("out of memory in a split call");
  }
  PlanState* const state = FindPlan(plan);
  if (state != nullptr) state->CountUndivided();
  return WithUndivided(state, plan, [&](cudnnBackendDescriptor_t whole) {
    return functions_.cudnnBackendExecute(handle, whole, pack);
  });
}

void GraphPlans::Follow(cudnnHandle_t handle, const PlanState& state) {
  if (!state.budget->learning() && !state.budget->waiting()) return;
  try {
    Session* const session = sessions_.Of(handle);
    if (session == nullptr || session->budget() != state.budget) return;
    budgets_.Follow(state.budget_kernel(), *session, handle);
  } catch (...) {
    // Memory ran out when a handle was used for the first time. The budget does not learn from this
    // call.
  }
}

void GraphPlans::Count(Session* session, cudnnHandle_t handle, const PlanState& state) const {
  state.record->Count(session != nullptr ? sessions_.LaneOf(*session, handle) : 0);
}

Session* GraphPlans::SessionOf(cudnnHandle_t handle, const PlanState& state) const noexcept {
  if (state.schedule == nullptr) return sessions_.Find(handle);
  try {
    return sessions_.Of(handle);
  } catch (...) {
    return nullptr;  // out of memory when a handle is used for the first time
  }
}

std::optional<cudnn::ConvolutionCall> GraphPlans::CallOf(cudnnHandle_t handle,
                                                         const PlanState& state,
                                                         const VariantPack& operands,
                                                         cudnn::FusedPointers& fused) {
  const cudnn::FusedConvolution& graph = state.own->convolution;
  const bool wide = graph.problem.type == DataType::kDouble;
  cudnn::ConvolutionCall call;
  call.operation = graph.problem.operation;
  call.handle = handle;
  call.alpha = wide ? static_cast<const void*>(&state.wide_alpha) : &state.alpha;
  call.beta = wide ? static_cast<const void*>(&state.wide_beta) : &state.beta;
  call.x = operands.Find(graph.x_uid);
  call.w = operands.Find(graph.w_uid);
  call.y = operands.Find(graph.y_uid);
  // A pack does not state the size of its workspace. The caller was told the promised size, so the
  // workspace has at least that size.
  call.workspace = operands.workspace;
  call.workspace_bytes = state.decision.promised_bytes;
  bool complete = call.x != nullptr && call.w != nullptr && call.y != nullptr;
  fused.operands = graph.operands;
  for (size_t i = 0; i < graph.operands.size(); ++i) {
    fused.pointers[i] = operands.Find(graph.operands[i].uid);
    complete = complete && fused.pointers[i] != nullptr;
  }
  call.fused = &fused;
  return complete ? std::optional(call) : std::nullopt;
}

cudnnStatus_t GraphPlans::RunPieces(Session* session, cudnnHandle_t handle,
                                    cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,
                                    PlanState& state) {
  GraphFallbacks other(functions_, handle, state.Undivided(plan), pack);
  const VariantPack* const operands = FindPack(pack);
  if (operands == nullptr || !operands->plain || session == nullptr ||
      session->context() != state.context) {
    return RunFallback(state, other);
  }
  // This process promised more than the plan needs, but the program passes no workspace: another
  // process, without a limit, told the program the plan's own need of 0 bytes.
  if (state.decision.promises_more && operands->workspace == nullptr) {
    return RunFallback(state, other);
  }
  cudnn::FusedPointers fused;
  const std::optional<cudnn::ConvolutionCall> call = CallOf(handle, state, *operands, fused);
  // The pack lacks an operand; the real library refuses such a pack.
  if (!call) return RunFallback(state, other);
  return RunSchedule({reporter_, *session, state.own->convolution.problem, state, *call}, other);
}

cudnnStatus_t GraphPlans::WorkspaceSize(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                        cudnnBackendDescriptor_t pack, size_t* bytes) {
  const PlanState* const state = FindPlan(plan);
  const bool other = state != nullptr && state->promises_other();
  const VariantPack* const operands = FindPack(pack);
  const cudnnBackendDescriptor_t whole = state != nullptr ? state->Undivided(plan) : plan;
  if (whole == nullptr && (operands == nullptr || !operands->plain)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const cudnnStatus_t status = functions_.cudnnGetExecutionPlanWorkspaceSize(
      handle, whole != nullptr ? whole : plan, pack, bytes);
  if (status != CUDNN_STATUS_SUCCESS || !other || bytes == nullptr) return status;
  // A pack with other shapes runs undivided, in the workspace that these shapes need.
  if (operands != nullptr && operands->plain) *bytes = state->decision.promised_bytes;
  return status;
}

}  // namespace ucudnn::interposer
