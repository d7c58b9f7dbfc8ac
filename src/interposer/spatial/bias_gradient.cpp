#include "interposer/spatial/bias_gradient.h"

#include "cudnn/descriptors.h"

namespace ucudnn::interposer {
namespace {

class OwnBiasGradient : public spatial::LocalCall {
 public:
  OwnBiasGradient(const cudnn::Functions& functions, const BiasGradientCall& call)
      : functions_(functions), call_(call) {}
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override {
    return functions_.cudnnConvolutionBackwardBias(call_.handle, call.alpha, call_.dy_descriptor,
                                                   call_.dy, call.beta, call_.db_descriptor,
                                                   call.w);
  }

 private:
  const cudnn::Functions& functions_;
  const BiasGradientCall& call_;
};

}  // namespace

cudnnStatus_t RunBiasGradient(const SplitContext& context, const BiasGradientCall& call) {
  Splitter& splitter = context.splitter;
  if (!splitter.refusal().empty()) return splitter.Refuse(splitter.refusal());
  if (call.alpha == nullptr || call.beta == nullptr || call.dy == nullptr || call.db == nullptr) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  cudnn::ConvolutionCall filter;
  filter.operation = Operation::kBackwardFilter;
  filter.handle = call.handle;
  filter.alpha = call.alpha;
  filter.beta = call.beta;
  filter.w = call.db;
  filter.y = const_cast<void*>(call.dy);
  const auto read = [&](ConvolutionProblem& problem) {
    return context.functions.cudnnConvolutionBackwardBias == nullptr
               ? "the real cuDNN lacks cudnnConvolutionBackwardBias"
               : cudnn::ReadBiasGradient(context.functions, call.dy_descriptor, call.db_descriptor,
                                         problem);
  };
  return SplitOperation(context, "a bias gradient", filter, read, [&](spatial::SplitCall& split) {
    OwnBiasGradient own(context.functions, call);
    split.work = spatial::SplitWork::kBiasGradient;
    split.declared.is_replicated = splitter.IsReplicated(call.dy_descriptor);
    return splitter.Run(split, own);
  });
}

}  // namespace ucudnn::interposer
