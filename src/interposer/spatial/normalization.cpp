#include "interposer/spatial/normalization.h"

#include "spatial/device_numbers.h"

namespace ucudnn::interposer {
namespace {

template <typename Call>
cudnnStatus_t Normalize(const cudnn::Functions& functions, const Call& call,
                        const cudnn::NormSpaces* spaces) {
  return spaces == nullptr ? cudnn::Normalize(functions, call)
                           : cudnn::Normalize(functions, call, *spaces);
}

// The rank's own call, with the program's arguments.
class OwnNorm : public spatial::LocalCall {
 public:
  OwnNorm(const cudnn::Functions& functions, const cudnn::NormSpaces* spaces, DataType type)
      : functions_(functions), spaces_(spaces), type_(type) {}
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override {
    return call.training != nullptr ? Normalize(functions_, *call.training, spaces_)
                                    : Normalize(functions_, *call.gradient, spaces_);
  }
  // Changes neither running statistics, nor saved statistics, nor gradients of parameters.
  cudnnStatus_t Try(const cudnn::ConvolutionCall& call) override {
    if (call.training != nullptr) {
      cudnn::NormTraining training = *call.training;
      training.y = call.y;
      training.running_mean = training.running_variance = nullptr;
      training.saved_mean = training.saved_inverse = nullptr;
      return Normalize(functions_, training, spaces_);
    }
    cudnn::NormGradient gradient = *call.gradient;
    gradient.dx = call.x;
    // With an epsilon of 0, a channel that is constant in this slice gives NaN. Setting
    // parameter_alpha to 0 does not remove the NaN, because 0 times NaN is NaN.
    if (gradient.saved_mean == nullptr && gradient.epsilon == 0) gradient.epsilon = 1;
    gradient.parameter_alpha = spatial::ZeroOf(type_);
    gradient.parameter_beta = spatial::OneOf(type_);
    return Normalize(functions_, gradient, spaces_);
  }

 private:
  const cudnn::Functions& functions_;
  const cudnn::NormSpaces* const spaces_;
  const DataType type_;
};

bool HasAll(const cudnn::NormTraining& call) {
  return call.alpha != nullptr && call.beta != nullptr && call.x != nullptr && call.y != nullptr &&
         call.scale != nullptr && call.bias != nullptr &&
         (call.saved_mean == nullptr) == (call.saved_inverse == nullptr);
}

bool HasAll(const cudnn::NormGradient& call) {
  return call.data_alpha != nullptr && call.data_beta != nullptr &&
         call.parameter_alpha != nullptr && call.parameter_beta != nullptr && call.x != nullptr &&
         call.dy != nullptr && call.dx != nullptr && call.scale != nullptr &&
         call.dscale != nullptr && call.dbias != nullptr &&
         (call.saved_mean == nullptr) == (call.saved_inverse == nullptr);
}

cudnn::ConvolutionCall CallOf(const cudnn::NormTraining& call) {
  cudnn::ConvolutionCall made;
  made.operation = Operation::kForward;
  made.handle = call.handle;
  made.alpha = call.alpha;
  made.beta = call.beta;
  made.x = const_cast<void*>(call.x);
  made.y = call.y;
  made.training = &call;
  return made;
}

cudnn::ConvolutionCall CallOf(const cudnn::NormGradient& call) {
  cudnn::ConvolutionCall made;
  made.operation = Operation::kBackwardData;
  made.handle = call.handle;
  made.alpha = call.data_alpha;
  made.beta = call.data_beta;
  made.x = call.dx;
  made.y = const_cast<void*>(call.dy);
  made.gradient = &call;
  return made;
}

// Returns whether dx has the address of x. Such a gradient cannot be split: its correction reads x
// after the rank's own part was written to dx.
bool OverwritesX(const cudnn::NormTraining&) { return false; }
bool OverwritesX(const cudnn::NormGradient& call) { return call.x == call.dx; }

cudnnTensorDescriptor_t OutputLayout(const cudnn::NormTraining& call) { return call.y_layout; }
cudnnTensorDescriptor_t OutputLayout(const cudnn::NormGradient& call) { return call.dy_layout; }

template <typename Call>
cudnnStatus_t RunSplit(const SplitContext& context, const Call& call,
                       const cudnn::NormSpaces* spaces) {
  Splitter& splitter = context.splitter;
  if (!splitter.refusal().empty()) return splitter.Refuse(splitter.refusal());
  if (!HasAll(call)) return CUDNN_STATUS_BAD_PARAM;
  // A call with a fused operation is refused even with per-activation statistics, because ucudnn
  // does not pass on the further operands of that operation.
  const bool is_fused = spaces != nullptr && spaces->operations != CUDNN_BATCHNORM_OPS_BN;
  // Per-activation statistics belong to one position and are computed from all images, so a
  // stripe's statistics are correct without the other stripes.
  if (call.mode == CUDNN_BATCHNORM_PER_ACTIVATION && !is_fused) {
    return Normalize(context.functions, call, spaces);
  }
  const auto read = [&](ConvolutionProblem& problem) {
    if (is_fused) return "an activation or an addition is fused behind it";
    return OverwritesX(call) ? "dx is x" : cudnn::ReadNorm(context.functions, call, problem);
  };
  const auto run = [&](spatial::SplitCall& split) {
    OwnNorm local(context.functions, spaces, split.problem.type);
    split.work = spatial::SplitWork::kNorm;
    split.declared.is_replicated =
        splitter.IsReplicated(call.x_layout) || splitter.IsReplicated(OutputLayout(call));
    return splitter.Run(split, local);
  };
  return SplitOperation(context, "a batch normalisation", CallOf(call), read, run);
}

}  // namespace

cudnnStatus_t RunNorm(const SplitContext& context, const cudnn::NormTraining& call,
                      const cudnn::NormSpaces* spaces) {
  return RunSplit(context, call, spaces);
}

cudnnStatus_t RunNorm(const SplitContext& context, const cudnn::NormGradient& call,
                      const cudnn::NormSpaces* spaces) {
  return RunSplit(context, call, spaces);
}

}  // namespace ucudnn::interposer
