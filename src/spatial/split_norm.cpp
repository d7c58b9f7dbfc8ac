#include "spatial/split_norm.h"

#include "spatial/device_numbers.h"

namespace ucudnn::spatial {

Result<std::unique_ptr<SplitKernel>> SplitNorm::Make(const PlanContext& context,
                                                     const GroupStripes& group,
                                                     const CallProperties& form,
                                                     bool sums_gradients) {
  std::unique_ptr<SplitNorm> kernel(new SplitNorm(context, group, form));
  // If ucudnn sums gradients, each copy keeps its own gradient, because copies are not summed. If
  // the program sums over ranks, only the first copy may count.
  kernel->contributes_ = group.counts || sums_gradients;
  if (!group.cuts) return std::unique_ptr<SplitKernel>(std::move(kernel));
  NormSlices slices;
  slices.type = kernel->problem_.type;
  slices.channels = kernel->problem_.c;
  slices.own = static_cast<size_t>(group.stripes.cell);
  slices.share = sums_gradients ? NormSlices::Share::kAll
                 : group.counts ? NormSlices::Share::kOwn
                                : NormSlices::Share::kNone;
  for (const Spatial& extents : group.extents) {
    slices.counts.push_back(int64_t{kernel->problem_.n} * extents[0] * extents[1] * extents[2]);
  }
  UCUDNN_ASSIGN_OR_RETURN(kernel->statistics_, NormStatistics::Make(context.functions, slices));
  const size_t message = kernel->statistics_->message_bytes();
  kernel->slots_.emplace(group.ranks, slices.own, message, message);
  kernel->buffer_bytes_ = kernel->statistics_->scratch_bytes();
  const uint64_t exchanges = form.recomputes ? 2 : 1;
  kernel->sent_bytes_ = kernel->received_bytes_ = exchanges * kernel->slots_->received_bytes();
  return std::unique_ptr<SplitKernel>(std::move(kernel));
}

cudnnStatus_t SplitNorm::RunAlone(const KernelCall& call) const {
  if (is_forward() || contributes_) return call.local.Run(call.call);
  cudnn::NormGradient gradient = *call.call.gradient;
  gradient.parameter_alpha = ZeroOf(problem_.type);
  cudnn::ConvolutionCall own = call.call;
  own.gradient = &gradient;
  return call.local.Run(own);
}

cudnnStatus_t SplitNorm::RunOwn(const KernelCall& call, CUdeviceptr buffer) const {
  return is_forward() ? statistics_->RunOwn(*call.call.training, buffer)
                      : statistics_->RunOwn(*call.call.gradient, buffer);
}

Status SplitNorm::Finish(const KernelCall& call, CUdeviceptr buffer) const {
  return is_forward() ? statistics_->Finish(*call.call.training, buffer)
                      : statistics_->Finish(*call.call.gradient, buffer);
}

// Makes no trial run if that run would write memory that the call itself reads later.
Status SplitNorm::Try(const KernelCall& call, ExchangeResources& device) {
  if (statistics_ == nullptr || (!is_forward() && (form_.reads_result || form_.recomputes))) {
    return Status::Ok();
  }
  UCUDNN_RETURN_IF_ERROR(device.read.HoldBack(call.stream));
  const Status tried = cudnn::CudnnStatus(*functions_, RunOwn(call, device.buffer.address()),
                                          "batch normalisation of a stripe");
  const Status left = LeaveBehind(call, device);
  return tried.ok() ? left : tried;
}

KernelOutcome SplitNorm::FindStatistics(const KernelCall& call, ExchangeResources& device,
                                        transport::Channel& channel) {
  const CUdeviceptr buffer = device.buffer.address();
  KernelOutcome outcome;
  outcome.status = statistics_->RunOwnStatistics(*call.call.gradient, buffer);
  outcome.exact = slots_->Run(call, outcome.status == CUDNN_STATUS_SUCCESS, device, channel);
  if (outcome.exact.ok()) {
    outcome.exact = statistics_->FinishStatistics(*call.call.gradient, buffer);
  }
  return outcome;
}

// Sends this rank's messages to the others even if its own part fails.
KernelOutcome SplitNorm::Run(const KernelCall& call, ExchangeResources& device,
                             transport::Channel& channel) {
  if (statistics_ == nullptr) return {RunAlone(call), Status::Ok()};
  const CUdeviceptr buffer = device.buffer.address();
  KernelOutcome outcome;
  outcome.exact = device.read.HoldBack(call.stream);
  if (form_.recomputes && outcome.exact.ok()) outcome = FindStatistics(call, device, channel);
  const cudnnStatus_t status = [&] {
    const SpanScope span(call.times, Span::kOwn, call.stream);
    return RunOwn(call, buffer);
  }();
  if (outcome.status == CUDNN_STATUS_SUCCESS) outcome.status = status;
  const bool has_own = outcome.status == CUDNN_STATUS_SUCCESS && outcome.exact.ok();
  const Status told = slots_->Run(call, has_own, device, channel);
  if (outcome.exact.ok()) outcome.exact = told;
  if (outcome.status != CUDNN_STATUS_SUCCESS || !outcome.exact.ok()) return outcome;
  outcome.exact = Finish(call, buffer);
  if (outcome.exact.ok()) outcome.exact = LeaveBehind(call, device);
  return outcome;
}

}  // namespace ucudnn::spatial
