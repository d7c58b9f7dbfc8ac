#include "interposer/spatial/pooling.h"

#include "cudnn/descriptors.h"

namespace ucudnn::interposer {
namespace {

class OwnPoolingCall : public spatial::LocalCall {
 public:
  OwnPoolingCall(const cudnn::Functions& functions, const cudnn::PoolingDescriptors& descriptors)
      : functions_(functions), descriptors_(descriptors) {}
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override {
    return cudnn::Pool(functions_, descriptors_, call);
  }

 private:
  const cudnn::Functions& functions_;
  const cudnn::PoolingDescriptors descriptors_;
};

bool HasAll(const PoolingCall& call) {
  const bool has_forward = call.alpha != nullptr && call.beta != nullptr && call.x != nullptr &&
                           call.y != nullptr && call.x_descriptor != nullptr &&
                           call.y_descriptor != nullptr && call.pooling != nullptr;
  if (call.operation == Operation::kForward) return has_forward;
  return has_forward && call.dy != nullptr && call.dx != nullptr && call.dy_descriptor != nullptr &&
         call.dx_descriptor != nullptr;
}

const char* Read(const cudnn::Functions& functions, const PoolingCall& call,
                 ConvolutionProblem& problem, cudnn::PoolingKind& kind) {
  if (!functions.HasPooling()) return "the real cuDNN lacks what pooling needs";
  if (call.operation == Operation::kBackwardData &&
      (!cudnn::SameTensor(functions, call.x_descriptor, call.dx_descriptor) ||
       !cudnn::SameTensor(functions, call.y_descriptor, call.dy_descriptor))) {
    return "a gradient does not lie as its tensor does";
  }
  // After the rank's own call, rows at the cuts are computed again from x and dy, so dx must not
  // overwrite x or dy.
  if (call.operation == Operation::kBackwardData && (call.dx == call.x || call.dx == call.dy)) {
    return "dx lies where x or dy does";
  }
  return cudnn::ReadPooling(functions, call.operation,
                            {call.pooling, call.x_descriptor, call.y_descriptor}, problem, kind);
}

}  // namespace

cudnnStatus_t RunPooling(const SplitContext& context, const PoolingCall& call) {
  Splitter& splitter = context.splitter;
  if (!splitter.refusal().empty()) return splitter.Refuse(splitter.refusal());
  if (!HasAll(call)) return CUDNN_STATUS_BAD_PARAM;
  const bool forward = call.operation == Operation::kForward;
  const cudnn::PoolingOperands operands = {call.x, call.y};
  cudnn::ConvolutionCall own;
  own.operation = call.operation;
  own.handle = call.handle;
  own.alpha = call.alpha;
  own.beta = call.beta;
  own.x = forward ? const_cast<void*>(call.x) : call.dx;
  own.y = forward ? call.y : const_cast<void*>(call.dy);
  own.pooling = forward ? nullptr : &operands;
  cudnn::PoolingKind kind;
  const auto read = [&](ConvolutionProblem& problem) {
    return Read(context.functions, call, problem, kind);
  };
  return SplitOperation(context, "a pooling", own, read, [&](spatial::SplitCall& split) {
    OwnPoolingCall local(context.functions, {call.pooling, call.x_descriptor, call.y_descriptor});
    split.work = spatial::SplitWork::kPooling;
    split.pooling = kind;
    // When a whole image is pooled, the program may declare y as replicated while x is a stripe. So
    // only the declaration of x counts.
    split.declared.is_replicated = splitter.IsReplicated(call.x_descriptor);
    return splitter.Run(split, local);
  });
}

}  // namespace ucudnn::interposer
