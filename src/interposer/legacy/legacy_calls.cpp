#include "interposer/legacy/legacy_calls.h"

#include "base/log.h"
#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "interposer/core/runner.h"
#include "planning/decision/unplanned_call.h"

namespace ucudnn::interposer {
namespace {

// Returns whether the call has all pointers that the real library requires.
bool HasAllPointers(const cudnn::ConvolutionCall& call) {
  if (call.alpha == nullptr || call.x == nullptr || call.w == nullptr || call.y == nullptr) {
    return false;
  }
  if (call.bias == nullptr) return call.beta != nullptr;
  return call.bias->alpha2 != nullptr && call.bias->z != nullptr && call.bias->bias != nullptr;
}

// Returns whether cuDNN's documentation says that the algorithm is deterministic.
bool IsReproducible(Operation operation, int algorithm) {
  switch (operation) {
    case Operation::kForward:
      return true;
    case Operation::kBackwardData:
      return algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
    case Operation::kBackwardFilter:
      return algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 &&
             algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
  }
  return false;
}

}  // namespace

cudnnStatus_t LegacyCalls::ConvolveUnplanned(const Session& session, const CallKey& key,
                                             const cudnn::ConvolutionCall& call) {
  planning::UnplannedCall unplanned;
  unplanned.kind = key.kind;
  unplanned.algorithm = call.algorithm;
  unplanned.told = promises_.FindUndivided({session.platform(), call.algorithm, key.problem},
                                           key.workspace_bytes);
  unplanned.strict_limit = options_.strict_limit;
  unplanned.varies = options_.deterministic && !IsReproducible(call.operation, call.algorithm);
  unplanned.observes = options_.mode != Mode::kOn;
  size_t need = 0;
  if (unplanned.strict_limit && !unplanned.observes &&
      cudnn::WorkspaceBytes(functions_, call.operation, call.handle, call.descriptors,
                            call.algorithm, &need) == CUDNN_STATUS_SUCCESS) {
    unplanned.need_bytes = need;
    unplanned.user_limit = rules_.UserLimit(session);
  }
  const planning::Unplanned decided = planning::DecideUnplanned(unplanned);
  if (decided.action == planning::CallAction::kRefusal) return CUDNN_STATUS_NOT_SUPPORTED;
  cudnn::ConvolutionCall undivided = call;
  undivided.algorithm = decided.algorithm;
  return cudnn::Convolve(functions_, undivided);
}

class LegacyCalls::Fallbacks : public CallFallbacks {
 public:
  Fallbacks(LegacyCalls& calls, const Session& session, const CallKey& key, const CallState& state,
            const cudnn::ConvolutionCall& call)
      : calls_(calls), session_(session), key_(key), state_(state), call_(call) {}

  // If the undivided engine fails, the program's own call runs in the caller's workspace.
  cudnnStatus_t Undivided(bool failed) override {
    execution::Outcome outcome;
    const bool ran = !failed &&
                     state_.schedule->RunUndivided(call_, outcome) == CUDNN_STATUS_SUCCESS &&
                     outcome == execution::Outcome::kUndivided;
    return ran ? CUDNN_STATUS_SUCCESS : Real();
  }
  cudnnStatus_t Real() override { return cudnn::Convolve(calls_.functions_, call_); }
  // The caller passes less workspace than the call needs, so the real library returns an error.
  cudnnStatus_t Refused() override { return calls_.ConvolveUnplanned(session_, key_, call_); }

 private:
  LegacyCalls& calls_;
  const Session& session_;
  const CallKey& key_;
  const CallState& state_;
  const cudnn::ConvolutionCall& call_;
};

std::optional<CallKind> LegacyCalls::KindOf(const cudnn::ConvolutionCall& call,
                                            const ConvolutionProblem& problem) const {
  const bool aligned = cudnn::IsAligned(call.x) && cudnn::IsAligned(call.w) &&
                       cudnn::IsAligned(call.y) && cudnn::IsAligned(call.workspace) &&
                       (call.bias == nullptr || cudnn::IsAligned(call.bias->z));
  if (call.bias == nullptr) {
    if (!aligned) return CallKind::kMisaligned;
    if (options_.engines == EngineSet::kLegacy) return CallKind::kPlain;
    if (cudnn::ScaleOf(call.alpha, problem.type) != 1) return CallKind::kScaled;
    const double beta = cudnn::ScaleOf(call.beta, problem.type);
    if (beta == 0) return CallKind::kPlain;
    // If the partials of a gradient are summed, engines were compared only in calls that replace
    // the output, not in calls that add to the output.
    const bool adds =
        problem.operation == Operation::kBackwardFilter && !SumsPartials(problem) && beta == 1;
    return adds ? CallKind::kAdding : CallKind::kScaled;
  }
  // Pieces use the descriptor of their y for z, too, so z must be laid out like y.
  if (!cudnn::SameTensor(functions_, call.bias->z_descriptor, call.descriptors.y)) {
    return std::nullopt;
  }
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
  double coefficient = 0;
  if (functions_.cudnnGetActivationDescriptor(call.bias->activation, &mode, &nan, &coefficient) !=
      CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  if (mode == CUDNN_ACTIVATION_IDENTITY) return CallKind::kIdentity;
  return aligned ? CallKind::kActivation : CallKind::kMisaligned;
}

bool LegacyCalls::MayRemember(const Session& session, const CallKey& key) {
  return !session.full() &&
         (!promises_.full() || promises_.Knows({session.platform(), key.algorithm, key.problem}));
}

bool LegacyCalls::NeedsPlan(const Session& session, const CallKey& key) const {
  // Only the named algorithm supports an identity activation, undivided or in pieces.
  if (key.kind == CallKind::kIdentity) {
    return promises_
        .FindAlone({session.platform(), key.algorithm, key.problem}, key.workspace_bytes)
        .has_value();
  }
  const auto told =
      promises_.Find({session.platform(), key.algorithm, key.problem}, key.workspace_bytes);
  return told && told->undivided.engine.empty();
}

cudnnStatus_t LegacyCalls::Convolve(const cudnn::ConvolutionCall& call) {
  return splitter_.splits() ? ConvolveSplit(call) : ConvolveHere(call);
}

cudnnStatus_t LegacyCalls::ConvolveSplit(const cudnn::ConvolutionCall& call) {
  class OwnCall : public spatial::LocalCall {
   public:
    explicit OwnCall(LegacyCalls& calls) : calls_(calls) {}
    cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override {
      return calls_.ConvolveHere(call);
    }

   private:
    LegacyCalls& calls_;
  };
  if (!splitter_.refusal().empty()) return splitter_.Refuse(splitter_.refusal());
  if (!HasAllPointers(call)) return CUDNN_STATUS_BAD_PARAM;
  const auto read = [&](ConvolutionProblem& problem) {
    return cudnn::ReadProblem(functions_, call.operation, call.descriptors, problem);
  };
  const SplitContext context{functions_, sessions_, splitter_};
  return SplitOperation(context, "a convolution", call, read, [&](spatial::SplitCall& split) {
    if (call.bias != nullptr &&
        !cudnn::SameTensor(functions_, call.bias->z_descriptor, call.descriptors.y)) {
      return splitter_.RefuseCall(
          call.operation, call.handle, split.context,
          "a convolution is not split: z and y differ in shape: " + Describe(split.problem));
    }
    split.declared.is_replicated =
        splitter_.IsReplicated(call.descriptors.x) || splitter_.IsReplicated(call.descriptors.y);
    OwnCall own(*this);
    return splitter_.Run(split, own);
  });
}

cudnnStatus_t LegacyCalls::ConvolveHere(const cudnn::ConvolutionCall& call) {
  Session* const session = HasAllPointers(call) ? sessions_.Of(call.handle) : nullptr;
  CallKey key;
  if (session == nullptr ||
      cudnn::ReadProblem(functions_, call.operation, call.descriptors, key.problem) != nullptr) {
    return cudnn::Convolve(functions_, call);
  }
  const std::optional<CallKind> kind = KindOf(call, key.problem);
  if (!kind) return cudnn::Convolve(functions_, call);
  key.algorithm = call.algorithm;
  key.kind = *kind;
  key.workspace_bytes = call.workspace == nullptr ? 0 : call.workspace_bytes;

  WorkspaceBudget* const budget = session->budget();
  if (budget != nullptr) {
    budgets_.Follow({Api::kLegacy, key.problem, 0, call.algorithm}, *session, call.handle);
  }
  CallState* state = session->Find(key);
  const bool due = state != nullptr && state->IsDue(state->page->calls, EpochOf(budget));
  // Inside a capture the present state stays, although more may be known by now.
  if (state == nullptr || (due && !session->Capturing())) {
    if (state == nullptr && !MayRemember(*session, key) && !NeedsPlan(*session, key)) {
      reporter_.TooManyKernels();
      return ConvolveUnplanned(*session, key, call);
    }
    try {
      state = Decide(call, *session, key, state);
    } catch (...) {
      WarnOnce("memory", "out of host memory: a kernel runs undivided");
      return ConvolveUnplanned(*session, key, call);
    }
  }
  if (state == nullptr) return cudnn::Convolve(functions_, call);
  state->Count(sessions_.LaneOf(*session, call.handle));
  if (state->refused()) return CUDNN_STATUS_NOT_SUPPORTED;
  if (state->schedule == nullptr) return cudnn::Convolve(functions_, call);
  Fallbacks other(*this, *session, key, *state, call);
  return RunSchedule({reporter_, *session, key.problem, *state, call}, other);
}

}  // namespace ucudnn::interposer
