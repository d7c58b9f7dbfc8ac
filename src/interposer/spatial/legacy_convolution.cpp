#include "interposer/spatial/legacy_convolution.h"

#include "cudnn/descriptors.h"

namespace ucudnn::interposer {

cudnnStatus_t RunLegacyConvolution(Process& process, const cudnn::ConvolutionCall& call,
                                   spatial::LocalCall& own) {
  Splitter& splitter = process.splitter;
  if (!splitter.refusal().empty()) return splitter.Refuse(splitter.refusal());
  Session* const session = process.sessions.Of(call.handle);
  if (session == nullptr) return splitter.Fail("a cuDNN handle is of no known device");
  ConvolutionProblem problem;
  const char* const unreadable =
      cudnn::ReadProblem(process.functions, call.operation, call.descriptors, problem);
  if (unreadable != nullptr) {
    return splitter.RefuseCall(call.operation, call.handle, *session,
                               std::string("a convolution is not split: ") + unreadable);
  }
  if (call.bias != nullptr &&
      !cudnn::SameTensor(process.functions, call.bias->z_descriptor, call.descriptors.y)) {
    return splitter.RefuseCall(
        call.operation, call.handle, *session,
        "a convolution is not split: z and y differ in shape: " + Describe(problem));
  }
  spatial::SplitCall split{problem, call, session->context(), session->stream(),
                           process.sessions.Capturing(*session)};
  split.declared.is_replicated =
      splitter.IsReplicated(call.descriptors.x) || splitter.IsReplicated(call.descriptors.y);
  return splitter.Run(split, own);
}

}  // namespace ucudnn::interposer
