// Split calls inside CUDA graph captures. A kernel that has run outside of a capture is captured
// with its exchange, between two host functions (device_log.h). Whenever a graph is launched, the
// thread of RankWatch posts the records of the calls that the device begins.
#include "base/log.h"
#include "spatial/split_calls.h"

namespace ucudnn::spatial {

KernelOutcome SplitCalls::Capture(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                                  const cuda::Capture& capture) {
  const Result<ExchangeResources*> found =
      device_.TakeForCapture(capture, call.stream, kernel, agreement_.most_buffer_bytes());
  if (!found.ok()) return {CUDNN_STATUS_SUCCESS, found.status()};
  ExchangeResources& device = **found;
  watch_.CountOnDevice(driver_);
  const Result<DeviceLog::Point*> point = BeginOnDevice(call, kernel, device);
  if (!point.ok()) return {CUDNN_STATUS_SUCCESS, point.status()};
  KernelOutcome outcome = kernel.Run({call.call, call.stream, local}, device, device_.channel());
  // Even if the call failed, the capture's streams must be joined; otherwise the whole capture
  // fails.
  const CUstream exchanges = device.stream.get();
  Status joined = Status::Ok();
  if (cuda::IsCapturing(driver_, exchanges)) {
    joined = device.entered.Record(exchanges);
    if (joined.ok()) joined = device.entered.HoldBack(call.stream);
  }
  const Status ended = EndOnDevice(*point, call, device);
  device_.CountOwned();  // the channel may have allocated memory
  if (outcome.exact.ok()) outcome.exact = joined.ok() ? ended : joined;
  return outcome;
}

cudnnStatus_t SplitCalls::RunCaptured(const SplitCall& call, LocalCall& local) {
  const std::optional<cuda::Capture> capture = cuda::CaptureOf(driver_, call.stream);
  const Result<SplitKernel*> found =
      capture ? agreement_.FindForCapture(call) : Status::Error("the capture has become invalid");
  if (!found.ok()) {
    sequence_.Post(call, nullptr, {});
    WarnOnce("spatial capture " + found.message(),
             "a split call is refused in a CUDA graph capture: " + Describe(call.problem) + ": " +
                 found.message());
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  SplitKernel* const kernel = *found;
  if (kernel == nullptr) {
    failure_.FailAt(
        sequence_.number(),
        "its tensors lie as never before, and it is inside a CUDA graph capture, where nothing "
        "can be made for them");
    return Broken(call);
  }
  sequence_.Post(call, kernel, {});
  if (!kernel->refusal().empty()) {
    log_.Count(kernel->log_number(), false);
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (!sequence_.AwaitIfChecked()) return Broken(call);
  if (call.declared.is_replicated) {
    return Conclude(call, {local.Run(call.call), Status::Ok()});
  }
  return Conclude(call, Capture(call, local, *kernel, *capture));
}

}  // namespace ucudnn::spatial
