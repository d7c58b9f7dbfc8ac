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

// Logs on the stream of exchanges that a call begins. So the log has the calls in the same order on
// all ranks, whatever streams the program uses.
Result<DeviceLog::Point*> SplitCalls::BeginOnDevice(const SplitCall& call,
                                                    const SplitKernel& kernel,
                                                    ExchangeResources& device) {
  DeviceLog* const log = watch_.device_log();
  if (log == nullptr || call.declared.is_replicated) return nullptr;
  DeviceCall begun;
  begun.call = sequence_.number();
  begun.kernel = kernel.common_hash();
  begun.log_number = kernel.log_number();
  begun.exchanged_bytes = kernel.exchanged_bytes();
  begun.is_captured = call.is_captured;
  begun.needs_others = kernel.needs_others();
  UCUDNN_RETURN_IF_ERROR(device.entered.Record(call.stream));
  UCUDNN_RETURN_IF_ERROR(device.entered.HoldBack(device.stream.get()));
  UCUDNN_ASSIGN_OR_RETURN(DeviceLog::Point* const point, log->Begin(begun, device.stream.get()));
  UCUDNN_RETURN_IF_ERROR(device.counted.Record(device.stream.get()));
  return point;
}

// Logs on the caller's stream that a call ends, after its beginning was logged. Later work on that
// stream, such as a launch of a graph, follows both entries.
Status SplitCalls::EndOnDevice(DeviceLog::Point* point, const SplitCall& call,
                               ExchangeResources& device) {
  if (point == nullptr) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(device.counted.HoldBack(call.stream));
  return watch_.device_log()->End(point, call.stream);
}

}  // namespace ucudnn::spatial
