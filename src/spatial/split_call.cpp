#include "spatial/split_call.h"

#include <bit>

#include "convolution/engine_id.h"
#include "spatial/agreement.h"
#include "spatial/device_numbers.h"

namespace ucudnn::spatial {
namespace {

void SetNorm(const SplitCall& call, CallProperties& form) {
  const DataType type = call.problem.type;
  if (const cudnn::NormTraining* const training = call.call.training) {
    form.operations = std::bit_cast<uint64_t>(training->epsilon);
    form.reads_result = cudnn::ScaleOf(training->beta, type) != 0 || training->x == training->y;
    return;
  }
  const cudnn::NormGradient& gradient = *call.call.gradient;
  form.recomputes = gradient.saved_mean == nullptr;
  form.operations = std::bit_cast<uint64_t>(gradient.epsilon);
  form.reads_result = cudnn::ScaleOf(gradient.data_beta, type) != 0 || gradient.dy == gradient.dx ||
                      gradient.x == gradient.dx;
}

}  // namespace

std::string_view FusionOf(const SplitCall& call) {
  const EngineId::Graph* const engine =
      call.plan != nullptr ? call.plan->convolution.engine.graph() : nullptr;
  return engine != nullptr ? std::string_view(engine->fusion) : std::string_view();
}

CallProperties FormOf(const cudnn::Functions& functions, const SplitCall& call) {
  CallProperties form;
  form.is_plan = call.plan != nullptr;
  form.work = call.work;
  form.is_replicated = call.declared.is_replicated;
  if (call.work == SplitWork::kRows) return form;
  if (call.work == SplitWork::kPooling) {
    form.pooling = call.pooling;
    form.hides_nan = call.pooling.is_maximum();
  }
  if (const std::string_view fusion = FusionOf(call); !fusion.empty()) {
    form.is_fused = true;
    form.hides_nan = true;  // a plan's JSON does not say how its operations treat NaN
    form.operations = HashOf(fusion) ^ std::bit_cast<uint64_t>(call.plan->convolution.alpha);
    const cudnn::FusedPointers& fused = *call.call.fused;
    const void* const result = call.call.*cudnn::OutputOf(call.problem.operation);
    for (size_t i = 0; i < fused.operands.size(); ++i) {
      form.reads_result = form.reads_result || fused.pointers[i] == result;
    }
    return form;
  }
  if (call.work == SplitWork::kNorm) {
    SetNorm(call, form);
    return form;
  }
  const cudnn::BiasActivation* const bias = call.call.bias;
  if (bias == nullptr) {
    form.reads_result = cudnn::ScaleOf(call.call.beta, call.problem.type) != 0;
    return form;
  }
  form.is_fused = true;
  form.reads_result = bias->z == call.call.y;
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_RELU;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  double coefficient = 0;
  form.is_identity = functions.cudnnGetActivationDescriptor(bias->activation, &mode, &nan,
                                                            &coefficient) == CUDNN_STATUS_SUCCESS &&
                     mode == CUDNN_ACTIVATION_IDENTITY;
  form.hides_nan = !form.is_identity && nan == CUDNN_NOT_PROPAGATE_NAN;
  return form;
}

Spatial WithRowsBeside(const ConvolutionProblem& problem) {
  Spatial extents = problem.x;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) extents[axis] += 2 * problem.pad[axis];
  return extents;
}

}  // namespace ucudnn::spatial
