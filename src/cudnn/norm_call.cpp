#include "cudnn/norm_call.h"

#include "cudnn/descriptors.h"

namespace ucudnn::cudnn {

cudnnStatus_t Normalize(const Functions& functions, const NormTraining& call) {
  return functions.cudnnBatchNormalizationForwardTraining(
      call.handle, call.mode, call.alpha, call.beta, call.x_layout, call.x, call.y_layout, call.y,
      call.parameters, call.scale, call.bias, call.factor, call.running_mean, call.running_variance,
      call.epsilon, call.saved_mean, call.saved_inverse);
}

cudnnStatus_t Normalize(const Functions& functions, const NormGradient& call) {
  return functions.cudnnBatchNormalizationBackward(
      call.handle, call.mode, call.data_alpha, call.data_beta, call.parameter_alpha,
      call.parameter_beta, call.x_layout, call.x, call.dy_layout, call.dy, call.dx_layout, call.dx,
      call.parameters, call.scale, call.dscale, call.dbias, call.epsilon, call.saved_mean,
      call.saved_inverse);
}

cudnnStatus_t Normalize(const Functions& functions, const NormTraining& call,
                        const NormSpaces& spaces) {
  return functions.cudnnBatchNormalizationForwardTrainingEx(
      call.handle, call.mode, spaces.operations, call.alpha, call.beta, call.x_layout, call.x,
      spaces.z_layout, spaces.z, call.y_layout, call.y, call.parameters, call.scale, call.bias,
      call.factor, call.running_mean, call.running_variance, call.epsilon, call.saved_mean,
      call.saved_inverse, spaces.activation, spaces.workspace, spaces.workspace_bytes,
      spaces.reserve, spaces.reserve_bytes);
}

// y and the bias are null, because the gradient reads them only with an activation.
cudnnStatus_t Normalize(const Functions& functions, const NormGradient& call,
                        const NormSpaces& spaces) {
  return functions.cudnnBatchNormalizationBackwardEx(
      call.handle, call.mode, spaces.operations, call.data_alpha, call.data_beta,
      call.parameter_alpha, call.parameter_beta, call.x_layout, call.x, nullptr, nullptr,
      call.dy_layout, call.dy, spaces.z_layout, spaces.z, call.dx_layout, call.dx, call.parameters,
      call.scale, nullptr, call.dscale, call.dbias, call.epsilon, call.saved_mean,
      call.saved_inverse, spaces.activation, spaces.workspace, spaces.workspace_bytes,
      spaces.reserve, spaces.reserve_bytes);
}

const char* ReadNorm(const Functions& functions, const NormTraining& call,
                     ConvolutionProblem& problem) {
  Spatial y = {};
  if (const char* const unreadable =
          ReadChannelwise(functions, call.x_layout, call.y_layout, problem, y)) {
    return unreadable;
  }
  return y == problem.x ? nullptr : "x and y differ in extents";
}

const char* ReadNorm(const Functions& functions, const NormGradient& call,
                     ConvolutionProblem& problem) {
  Spatial x = {}, dy = {};
  ConvolutionProblem of_x;
  if (const char* const unreadable =
          ReadChannelwise(functions, call.dx_layout, call.x_layout, of_x, x)) {
    return unreadable;
  }
  if (const char* const unreadable =
          ReadChannelwise(functions, call.dx_layout, call.dy_layout, problem, dy)) {
    return unreadable;
  }
  problem.operation = Operation::kBackwardData;
  return x == problem.x && dy == problem.x ? nullptr : "x, dy and dx differ in extents";
}

}  // namespace ucudnn::cudnn
