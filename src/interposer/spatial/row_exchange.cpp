#include "interposer/spatial/row_exchange.h"

#include "cuda/box_copy.h"
#include "cudnn/descriptors.h"

namespace ucudnn::interposer {
namespace {

// Writes only this rank's stripe, and zeros to the rows around it.
class OwnRows : public spatial::LocalCall {
 public:
  OwnRows(const cuda::Driver& driver, const ConvolutionProblem& problem, CUstream stream)
      : driver_(driver), problem_(problem), stream_(stream) {}
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override {
    const ConvolutionProblem& p = problem_;
    const size_t element = ElementBytes(p.type);
    const Spatial extents = spatial::WithRowsBeside(p);
    const auto y = reinterpret_cast<CUdeviceptr>(call.y);
    const cuda::DeviceBox all = {
        {p.n, p.c, extents[0], extents[1], extents[2]}, p.y_strides, element, y};
    int64_t begin = 0;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      begin += p.pad[axis] * p.y_strides[kAxisD + axis];
    }
    const cuda::BoxCopy own({p.n, p.c, p.x[0], p.x[1], p.x[2]}, p.x_strides, p.y_strides, element);
    const bool enqueued = cuda::Fill(driver_, all, 0, stream_).ok() &&
                          own.Enqueue(driver_, reinterpret_cast<CUdeviceptr>(call.x),
                                      y + static_cast<size_t>(begin) * element, stream_)
                              .ok();
    return enqueued ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
  }

 private:
  const cuda::Driver& driver_;
  const ConvolutionProblem& problem_;
  const CUstream stream_;
};

}  // namespace

cudnnStatus_t RunRowExchange(const SplitContext& context, const RowExchangeCall& call,
                             std::string& why) {
  Splitter& splitter = context.splitter;
  if (!splitter.refusal().empty()) return splitter.Refuse(splitter.refusal());
  Session* const session = context.SessionOf(call.handle);
  if (session == nullptr) {
    why = "the handle is of no known device";
    return CUDNN_STATUS_BAD_PARAM;
  }
  ConvolutionProblem problem;
  if (const char* const unreadable =
          cudnn::ReadRowsBeside(context.functions, call.x_descriptor, call.y_descriptor, problem)) {
    why = unreadable;
    return CUDNN_STATUS_BAD_PARAM;
  }
  cudnn::ConvolutionCall forward;
  forward.operation = Operation::kForward;
  forward.handle = call.handle;
  forward.x = const_cast<void*>(call.x);
  forward.y = call.y;
  OwnRows own(session->driver(), problem, session->stream());
  if (!splitter.splits()) {
    const cuda::ContextScope scope(session->driver(), session->context());
    return own.Run(forward);
  }
  spatial::SplitCall split{problem, forward, session->context(), session->stream(),
                           session->Capturing()};
  split.work = spatial::SplitWork::kRows;
  return splitter.Run(split, own);
}

}  // namespace ucudnn::interposer
