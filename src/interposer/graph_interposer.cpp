#include "interposer/graph_interposer.h"

#include <algorithm>

#include "base/log.h"
#include "cuda/resources.h"
#include "interposer/checked_call.h"
#include "interposer/interposer.h"
#include "interposer/library_workspace.h"

namespace ucudnn::interposer {
namespace {

constexpr float kOne = 1, kZero = 0;
constexpr double kWideOne = 1, kWideZero = 0;

}  // namespace

cudnnStatus_t GraphInterposer::Create(cudnnBackendDescriptorType_t type,
                                      cudnnBackendDescriptor_t* descriptor) {
  const cudnnStatus_t status = i_.functions_.cudnnBackendCreateDescriptor(type, descriptor);
  if (status != CUDNN_STATUS_SUCCESS || descriptor == nullptr) return status;
  if (type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    OpenPack(*descriptor);
    return status;
  }
  try {
    shadows_.OnCreate(*descriptor, type);
  } catch (...) {
    // Out of memory: what is made of it is left alone.
  }
  return status;
}

std::optional<DescriptorShadow> GraphInterposer::Forget(cudnnBackendDescriptor_t descriptor) {
  std::optional<DescriptorShadow> shadow = shadows_.OnDestroy(descriptor);
  Plans* const plans = plans_.load(std::memory_order_acquire);
  if (shadow && shadow->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && plans != nullptr) {
    plans->Remove(descriptor);
  }
  return shadow;
}

cudnnStatus_t GraphInterposer::Destroy(cudnnBackendDescriptor_t descriptor) {
  if (!CloseOwnPack(descriptor) && !Forget(descriptor)) ClosePack(descriptor);
  return i_.functions_.cudnnBackendDestroyDescriptor(descriptor);
}

cudnnStatus_t GraphInterposer::Initialize(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = i_.functions_.cudnnBackendInitialize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (VariantPack* pack = FindPack(descriptor)) {
    pack->Clear();
    return status;
  }
  try {
    const std::optional<DescriptorShadow> shadow = Forget(descriptor);
    if (shadow) shadows_.OnCreate(descriptor, shadow->type);
  } catch (...) {
    // Out of memory: what is made of it is left alone.
  }
  return status;
}

cudnnStatus_t GraphInterposer::Set(cudnnBackendDescriptor_t descriptor,
                                   cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, int64_t count,
                                   const void* values) {
  const cudnnStatus_t status =
      i_.functions_.cudnnBackendSetAttribute(descriptor, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (name >= CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS && name < CUDNN_ATTR_LAYOUT_INFO_TENSOR_UID) {
    if (VariantPack* pack = FindPack(descriptor)) pack->OnSet(name, count, values);
  } else {
    shadows_.OnSet(descriptor, name, count, values);
  }
  return status;
}

cudnnStatus_t GraphInterposer::Get(cudnnBackendDescriptor_t descriptor,
                                   cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, int64_t requested,
                                   int64_t* count, void* values) {
  if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
    return BehaviorNotes(descriptor, type, requested, count, values);
  }
  int64_t given = 0;
  int64_t* const counted = count != nullptr ? count : &given;
  const cudnnStatus_t status =
      i_.functions_.cudnnBackendGetAttribute(descriptor, name, type, requested, count, values);
  if (status != CUDNN_STATUS_SUCCESS || values == nullptr || requested < 1) return status;
  if (count == nullptr) given = requested;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    const GraphDecision* const decision = FindPlan(descriptor);
    if (decision != nullptr && decision->smaller()) {
      *static_cast<int64_t*>(values) = static_cast<int64_t>(decision->promised_bytes);
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

Result<cudnn::BackendDescriptor> GraphInterposer::PlanOf(cudnnBackendDescriptor_t configuration,
                                                         cudnnHandle_t handle) const {
  const cuda::RelaxedCaptureScope relaxed(*i_.driver_);
  UCUDNN_ASSIGN_OR_RETURN(
      cudnn::BackendDescriptor plan,
      cudnn::BackendDescriptor::Create(i_.functions_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  UCUDNN_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
  UCUDNN_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration));
  UCUDNN_RETURN_IF_ERROR(plan.Finalize());
  return plan;
}

std::optional<size_t> GraphInterposer::PromiseOf(cudnnBackendDescriptor_t configuration) {
  const std::optional<DescriptorShadow> shadow = shadows_.Find(configuration);
  const bool convolution = shadow && (shadow->kind == GraphKind::kConvolution ||
                                      shadow->kind == GraphKind::kUndividable);
  if (!convolution || shadow->handle == nullptr) return std::nullopt;
  try {
    // Without a limit a plan reports what it needs.
    Session* const session = i_.SessionOf(shadow->handle);
    const bool limited =
        session != nullptr && (i_.UserLimit(*session) != kNoLimit || !i_.options_.plan.empty());
    if (!limited) return std::nullopt;
    const auto plan = PlanOf(configuration, shadow->handle);
    if (!plan.ok()) return std::nullopt;
    const GraphDecision* const decision = Decide(plan->get(), *shadow);
    if (decision == nullptr || !decision->smaller()) return std::nullopt;
    return decision->promised_bytes;
  } catch (...) {
    return std::nullopt;
  }
}

cudnnStatus_t GraphInterposer::Finalize(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = i_.functions_.cudnnBackendFinalize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS || FindOwnPack(descriptor) != nullptr) return status;
  const std::optional<DescriptorShadow> shadow = shadows_.Find(descriptor);
  if (!shadow || shadow->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      shadow->kind == GraphKind::kOther || shadow->handle == nullptr) {
    return status;
  }
  try {
    GraphDecision* const decision = Decide(descriptor, *shadow);
    if (decision == nullptr) return status;
    if (decision->refused) return CUDNN_STATUS_NOT_SUPPORTED;
    Plans* plans = plans_.load(std::memory_order_acquire);
    if (plans == nullptr) {
      auto made = std::make_unique<Plans>();
      if (plans_.compare_exchange_strong(plans, made.get(), std::memory_order_acq_rel)) {
        plans = made.release();
      }
    }
    // Nothing was promised yet: a plan that finds no place stays as it is.
    if (!plans->Insert(descriptor, decision)) {
      i_.TooManyKernels();
    } else if (decision->network != nullptr) {
      decision->network->Ask({decision->own->plan.problem, 0, decision->first});
    }
  } catch (...) {
    WarnOnce("memory", "out of host memory: a plan is left alone");
  }
  return status;
}

GraphDecision* GraphInterposer::FindPlan(cudnnBackendDescriptor_t plan) const {
  const Plans* const plans = plans_.load(std::memory_order_acquire);
  GraphDecision* const decision = plans == nullptr ? nullptr : plans->Find(plan);
  return decision == nullptr ? nullptr : decision->Latest();
}

cudnnBackendDescriptor_t GraphInterposer::Substitute(cudnnBackendDescriptor_t plan) const {
  const GraphDecision* const decision = FindPlan(plan);
  return decision != nullptr && decision->smaller() ? decision->substitute.get() : plan;
}

void GraphInterposer::Count(cudnnHandle_t handle, const GraphDecision& decision) {
  Session* const session = i_.sessions_.Find(handle);
  decision.record->Count(session != nullptr ? i_.LaneOf(*session, handle) : 0);
}

cudnnStatus_t GraphInterposer::Execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                       cudnnBackendDescriptor_t pack) {
  GraphDecision* decision = FindPlan(plan);
  if (decision == nullptr) return i_.functions_.cudnnBackendExecute(handle, plan, pack);
  if (decision->network != nullptr) Learn(handle, *decision);
  const long calls = decision->record->calls.load(std::memory_order_relaxed);
  if (calls >= decision->due_at.load(std::memory_order_relaxed) || decision->redivided()) {
    decision = Improve(handle, *decision, calls);
  }
  Count(handle, *decision);
  if (decision->plan != nullptr) return RunPieces(handle, plan, pack, *decision);
  return i_.functions_.cudnnBackendExecute(
      handle, decision->smaller() ? decision->substitute.get() : plan, pack);
}

cudnnStatus_t GraphInterposer::RunPieces(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t pack, GraphDecision& decision) {
  using execution::Outcome;
  // The whole batch by the genuine library, with the application's own pack.
  const auto undivided = [&] {
    decision.CountUndivided();
    return i_.functions_.cudnnBackendExecute(
        handle, decision.smaller() ? decision.substitute.get() : plan, pack);
  };
  const VariantPack* const operands = FindPack(pack);
  Session* session = nullptr;
  try {
    session = i_.SessionOf(handle);
  } catch (...) {
    // Out of memory where a handle is met for the first time.
  }
  if (operands == nullptr || !operands->plain || session == nullptr ||
      session->context() != decision.context || !decision.may_divide()) {
    return undivided();
  }
  // What never ran outside may break a capture.
  const bool capturing = i_.Capturing(*session);
  if (capturing && !decision.ran.load(std::memory_order_relaxed)) return undivided();
  const bool in_library = decision.library.bytes > 0;
  const Interposer::LibraryWorkspace library(i_, *session, handle, decision.library, true,
                                             capturing);
  if (in_library && library.data() == nullptr) return undivided();

  const cudnn::GraphPlan& graph = decision.own->plan;
  const ConvolutionProblem& problem = graph.problem;
  const bool wide = problem.type == DataType::kDouble;
  cudnn::LegacyCall call;
  call.operation = problem.operation;
  call.handle = handle;
  call.alpha = wide ? static_cast<const void*>(&decision.wide_alpha) : &decision.alpha;
  call.beta = wide ? static_cast<const void*>(&decision.wide_beta) : &decision.beta;
  call.x = operands->Find(graph.x_uid);
  call.w = operands->Find(graph.w_uid);
  call.y = operands->Find(graph.y_uid);
  // A pointer carries no size: the caller was told this one.
  call.workspace = in_library ? library.data() : operands->workspace;
  call.workspace_bytes = in_library ? decision.library.bytes : decision.promised_bytes;
  cudnn::BiasActivation fused;
  if (graph.residual_uid || graph.bias_uid) {
    const bool reads = graph.residual_uid.has_value();
    fused.alpha2 = wide ? static_cast<const void*>(reads ? &kWideOne : &kWideZero)
                        : static_cast<const void*>(reads ? &kOne : &kZero);
    if (graph.residual_uid) fused.z = operands->Find(*graph.residual_uid);
    if (graph.bias_uid) fused.bias = operands->Find(*graph.bias_uid);
    fused.bias_bytes = graph.bias_bytes;
    call.bias = &fused;
  }
  // What the genuine library would refuse, it shall refuse itself.
  if (call.x == nullptr || call.w == nullptr || call.y == nullptr ||
      (graph.residual_uid && fused.z == nullptr) || (graph.bias_uid && fused.bias == nullptr) ||
      !decision.plan->Suits(call.workspace)) {
    return undivided();
  }
  if (!capturing && i_.options_.check) {
    const CheckedCall checked = RunChecked(*i_.driver_, session->context(), session->stream(),
                                           *decision.plan, problem, decision.numeric, call);
    const tuning::Verdict verdict = checked.verification.verdict;
    if (verdict == tuning::Verdict::kDifferent || verdict == tuning::Verdict::kTrespassed) {
      *decision.failed = true;
      i_.Fallback(problem, "UCUDNN_CHECK found the plan wrong; it is never used again");
      i_.Fallback(problem, checked.verification.message);
    }
    if (verdict == tuning::Verdict::kEqual) decision.ran = true;
    if (checked.piece_failed) {
      *decision.failed = true;
      i_.Fallback(problem, kPieceFailed);
    }
    if (checked.done) {
      if (verdict != tuning::Verdict::kEqual) decision.CountUndivided();
      return CUDNN_STATUS_SUCCESS;
    }
    if (*decision.failed) return undivided();
  }
  Outcome outcome;
  const cudnnStatus_t status = decision.plan->Run(call, outcome);
  if (outcome == Outcome::kNotAttempted) return undivided();
  if (outcome == Outcome::kPlanned) {
    if (!capturing) decision.ran.store(true, std::memory_order_relaxed);
    return status;
  }
  if (outcome == Outcome::kUndivided) decision.CountUndivided();
  *decision.failed = true;
  i_.Fallback(problem, kPieceFailed);
  return status;
}

cudnnStatus_t GraphInterposer::WorkspaceSize(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                             cudnnBackendDescriptor_t pack, size_t* bytes) {
  const GraphDecision* const decision = FindPlan(plan);
  const bool smaller = decision != nullptr && decision->smaller();
  const cudnnStatus_t status = i_.functions_.cudnnGetExecutionPlanWorkspaceSize(
      handle, smaller ? decision->substitute.get() : plan, pack, bytes);
  if (status != CUDNN_STATUS_SUCCESS || !smaller || bytes == nullptr) return status;
  // Other shapes run undivided, in what that needs.
  const VariantPack* const operands = FindPack(pack);
  if (operands != nullptr && operands->plain) *bytes = decision->promised_bytes;
  return status;
}

}  // namespace ucudnn::interposer
