#include "interposer/spatial/legacy_convolution.h"

#include "cudnn/descriptors.h"

namespace ucudnn::interposer {

cudnnStatus_t RunLegacyConvolution(const SplitContext& context, const cudnn::ConvolutionCall& call,
                                   spatial::LocalCall& own) {
  Splitter& splitter = context.splitter;
  if (!splitter.refusal().empty()) return splitter.Refuse(splitter.refusal());
  const auto read = [&](ConvolutionProblem& problem) {
    return cudnn::ReadProblem(context.functions, call.operation, call.descriptors, problem);
  };
  return SplitOperation(context, "a convolution", call, read, [&](spatial::SplitCall& split) {
    if (call.bias != nullptr &&
        !cudnn::SameTensor(context.functions, call.bias->z_descriptor, call.descriptors.y)) {
      return splitter.RefuseCall(
          call.operation, call.handle, split.context,
          "a convolution is not split: z and y differ in shape: " + Describe(split.problem));
    }
    split.declared.is_replicated =
        splitter.IsReplicated(call.descriptors.x) || splitter.IsReplicated(call.descriptors.y);
    return splitter.Run(split, own);
  });
}

}  // namespace ucudnn::interposer
