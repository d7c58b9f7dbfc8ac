#include "spatial/halo_kernel.h"

#include <algorithm>

#include "base/byte_size.h"
#include "cudnn/part_call.h"
#include "spatial/device_numbers.h"

namespace ucudnn::spatial {
namespace {

Result<std::unique_ptr<SlicePlan>> PlanOf(const PlanContext& context, const GroupStripes& group,
                                          const CallProperties& form, int images) {
  GroupStripes slice = group;
  slice.stripes.local.n = images;
  return SlicePlan::Make(context, slice, form);
}

// Returns the bytes of the buffer in which a gradient is computed; 0 if it is computed in the
// caller's memory.
size_t GradientBytes(const ConvolutionProblem& problem, const CallProperties& form) {
  if (problem.operation != Operation::kBackwardFilter || form.is_replicated) return 0;
  if (SumsPartials(problem)) return PartialSumBytes(problem);
  return form.reads_result ? cudnn::FilterBytes(problem) : 0;
}

// Returns how many bytes of a gradient are summed over ranks.
size_t SummedBytes(const ConvolutionProblem& problem) {
  return SumsPartials(problem) ? AccumulatorBytes(problem) : cudnn::FilterBytes(problem);
}

bool SumsOverRanks(const GroupStripes& group, bool sums_gradients) {
  return group.stripes.local.operation == Operation::kBackwardFilter && sums_gradients &&
         group.cuts;
}

// The caller's call without its first `image` images.
class ImageCall : public cudnn::PartCall {
 public:
  ImageCall(const cudnn::ConvolutionCall& whole, const ConvolutionProblem& problem, int64_t image)
      : PartCall(whole, AtImage(problem, FusedIn(whole), image)) {}

 private:
  static std::span<const cudnn::FusedOperand> FusedIn(const cudnn::ConvolutionCall& call) {
    return call.fused != nullptr ? call.fused->operands : std::span<const cudnn::FusedOperand>();
  }
};

}  // namespace

Result<std::unique_ptr<SplitKernel>> HaloKernel::MakeFitting(const PlanContext& context,
                                                             const GroupStripes& group,
                                                             const CallProperties& form,
                                                             bool sums_gradients,
                                                             size_t most_bytes) {
  if (form.is_replicated) {
    return Make(context, group, form, sums_gradients, {group.stripes.local.n, nullptr}, most_bytes);
  }
  const bool sums = SumsOverRanks(group, sums_gradients);
  const size_t gradient =
      GradientBytes(group.stripes.local, form) +
      (sums ? transport::ReductionScratchBytes(SummedBytes(group.stripes.local)) : 0);
  // A slice with fewer images needs less memory, so the number of images is reduced until the
  // slices fit.
  for (int images = group.stripes.local.n;;) {
    UCUDNN_ASSIGN_OR_RETURN(auto plan, PlanOf(context, group, form, images));
    const int slices = (group.stripes.local.n - 1) / images + 1;
    const size_t bytes =
        plan->buffer_bytes() + static_cast<size_t>(slices) * plan->kept_bytes() + gradient;
    const size_t second_room = slices > 1 ? plan->buffer_bytes() : 0;
    if (bytes + second_room <= most_bytes || (images == 1 && bytes <= most_bytes)) {
      return Make(context, group, form, sums_gradients, {images, std::move(plan)}, most_bytes);
    }
    if (images == 1) {
      return Status::Error("what is exchanged of one image takes " + FormatByteSize(bytes) +
                           ", and the limit leaves " + FormatByteSize(most_bytes));
    }
    const size_t image_bytes = 2 * plan->buffer_bytes() / static_cast<size_t>(images) + 1;
    const size_t left = most_bytes - std::min(most_bytes, gradient);
    images = std::clamp(static_cast<int>(left / image_bytes), 1, images - 1);
  }
}

Result<std::unique_ptr<SplitKernel>> HaloKernel::Make(const PlanContext& context,
                                                      const GroupStripes& group,
                                                      const CallProperties& form,
                                                      bool sums_gradients, Slice slice,
                                                      size_t most_bytes) {
  std::unique_ptr<HaloKernel> kernel(new HaloKernel(context, group, form));
  kernel->full_ = std::move(slice.plan);
  kernel->sums_ = SumsOverRanks(group, sums_gradients);
  // If the program sums gradients, or the stripes' gradients are summed over ranks, only the
  // gradient of the first copy counts. Otherwise each copy keeps its own gradient.
  kernel->contributes_ = group.counts || (sums_gradients && !group.cuts);
  kernel->slice_ = slice.images;
  if (form.is_replicated) {
    kernel->contributes_ = true;
    return std::unique_ptr<SplitKernel>(std::move(kernel));
  }
  UCUDNN_RETURN_IF_ERROR(kernel->MakePlans(context, group));
  size_t bytes = kernel->full_->buffer_bytes();
  if (kernel->rest_ != nullptr) bytes = std::max(bytes, kernel->rest_->buffer_bytes());
  const auto slices = static_cast<size_t>((kernel->problem_.n - 1) / kernel->slice_ + 1);
  kernel->room_bytes_ = Aligned(bytes);
  kernel->gradient_bytes_ = GradientBytes(kernel->problem_, form);
  for (kernel->rooms_ = slices > 1 ? 2 : 1;; kernel->rooms_ = 1) {
    kernel->kept_place_ = kernel->rooms_ * kernel->room_bytes_;
    kernel->gradient_place_ = kernel->kept_place_ + slices * kernel->full_->kept_bytes();
    kernel->buffer_bytes_ = kernel->gradient_place_ + kernel->gradient_bytes_;
    if (kernel->rooms_ == 1 || kernel->device_bytes() <= most_bytes) break;
  }
  if (kernel->is_gradient() && SumsPartials(kernel->problem_)) {
    UCUDNN_ASSIGN_OR_RETURN(kernel->sum_,
                            cudnn::PartialSum::Create(context.functions, kernel->problem_));
  }
  return std::unique_ptr<SplitKernel>(std::move(kernel));
}

Status HaloKernel::MakePlans(const PlanContext& context, const GroupStripes& group) {
  if (full_ == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(full_, PlanOf(context, group, form_, slice_));
  }
  const auto count = static_cast<uint64_t>(problem_.n / slice_);
  sent_bytes_ = full_->sent_bytes() * count;
  received_bytes_ = full_->received_bytes() * count;
  const int left = problem_.n % slice_;
  if (left == 0) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(rest_, PlanOf(context, group, form_, left));
  sent_bytes_ += rest_->sent_bytes();
  received_bytes_ += rest_->received_bytes();
  return Status::Ok();
}

size_t HaloKernel::largest_message_bytes() const {
  size_t largest = 0;
  if (full_ == nullptr) return largest;
  for (const transport::Message& message : full_->Receives(0)) {
    largest = std::max(largest, message.bytes);
  }
  for (const transport::Message& message : full_->Sends(0)) {
    largest = std::max(largest, message.bytes);
  }
  return largest;
}

size_t HaloKernel::reduced_bytes() const { return sums_ ? SummedBytes(problem_) : 0; }

cudnn::ConvolutionCall HaloKernel::OwnCall(const cudnn::ConvolutionCall& call,
                                           CUdeviceptr buffer) const {
  cudnn::ConvolutionCall own = call;
  if (!is_gradient() || gradient_bytes_ == 0) return own;
  own.beta = ZeroOf(problem_.type);
  if (sum_ != nullptr) {
    if (!form_.is_plan) own.alpha = OneOf(problem_.type);
    own.w = sum_->Partial(ToPointer(buffer + gradient_place_));
  } else {
    own.w = ToPointer(buffer + gradient_place_);
  }
  return own;
}

SliceCall HaloKernel::SliceAt(int64_t image, const KernelCall& call,
                              const cudnn::ConvolutionCall& sliced,
                              ExchangeResources& device) const {
  const CUdeviceptr buffer = device.buffer.address();
  const auto kept = static_cast<size_t>(image / slice_) * full_->kept_bytes();
  return {sliced,
          buffer + RoomOf(image) * room_bytes_,
          buffer + kept_place_ + kept,
          call.stream,
          sum_.get(),
          ToPointer(buffer + gradient_place_),
          device.add};
}

Status HaloKernel::ExchangeAt(int64_t image, const KernelCall& call,
                              const cudnn::ConvolutionCall& own, ExchangeResources& device,
                              transport::Channel& channel) {
  SlicePlan& plan = PlanAt(image);
  if (!plan.exchanges()) return Status::Ok();
  const CUstream stream = device.stream.get();
  ImageCall sliced(own, problem_, image);
  // The exchange waits for the work that computed the rows, and for the work of the slice that used
  // this room before.
  UCUDNN_RETURN_IF_ERROR(device.entered.Record(call.stream));
  UCUDNN_RETURN_IF_ERROR(device.entered.HoldBack(stream));
  const SpanScope span(call.times, Span::kExchange, stream);
  UCUDNN_RETURN_IF_ERROR(plan.Pack(SliceAt(image, call, sliced.get(), device), stream));
  const CUdeviceptr room = device.buffer.address() + RoomOf(image) * room_bytes_;
  UCUDNN_RETURN_IF_ERROR(channel.Exchange(plan.Sends(room), plan.Receives(room), stream));
  return device.exchanged[RoomOf(image)].Record(stream);
}

Status HaloKernel::KeepAll(const KernelCall& call, const cudnn::ConvolutionCall& own,
                           ExchangeResources& device) {
  for (int64_t image = 0; image < problem_.n; image += slice_) {
    ImageCall sliced(own, problem_, image);
    UCUDNN_RETURN_IF_ERROR(PlanAt(image).Keep(SliceAt(image, call, sliced.get(), device)));
  }
  return Status::Ok();
}

KernelOutcome HaloKernel::RunOwn(const KernelCall& call, const cudnn::ConvolutionCall& own,
                                 ExchangeResources& device) {
  KernelOutcome outcome;
  const CUdeviceptr buffer = device.buffer.address();
  const bool writes_buffer = full_->kept_bytes() > 0 || gradient_bytes_ > 0;
  if (writes_buffer) outcome.exact = device.read.HoldBack(call.stream);
  if (outcome.exact.ok() && full_->kept_bytes() > 0) outcome.exact = KeepAll(call, own, device);
  // If KeepAll fails, results cannot be corrected, but the caller still gets the status of its own
  // call.
  {
    const SpanScope span(call.times, Span::kOwn, call.stream);
    outcome.status = call.local.Run(own);
  }
  if (outcome.status != CUDNN_STATUS_SUCCESS || !outcome.exact.ok() || sum_ == nullptr) {
    return outcome;
  }
  outcome.exact = cudnn::CudnnStatus(
      *functions_, sum_->Add(call.call.handle, ToPointer(buffer + gradient_place_), true),
      "summing a gradient");
  return outcome;
}

Status HaloKernel::CorrectAll(const KernelCall& call, const cudnn::ConvolutionCall& own,
                              ExchangeResources& device, transport::Channel& channel) {
  for (int64_t image = 0; image < problem_.n; image += slice_) {
    SlicePlan& plan = PlanAt(image);
    if (!plan.exchanges()) continue;
    {
      const SpanScope span(call.times, Span::kAwaitExchange, call.stream);
      UCUDNN_RETURN_IF_ERROR(device.exchanged[RoomOf(image)].HoldBack(call.stream));
    }
    ImageCall sliced(own, problem_, image);
    UCUDNN_RETURN_IF_ERROR(plan.Correct(SliceAt(image, call, sliced.get(), device)));
    // The next slice in this room can be exchanged now.
    const int64_t next = image + static_cast<int64_t>(rooms_) * slice_;
    if (next < problem_.n) {
      UCUDNN_RETURN_IF_ERROR(ExchangeAt(next, call, own, device, channel));
    }
  }
  return Status::Ok();
}

Status HaloKernel::Try(const KernelCall& call, ExchangeResources& device) {
  const CUdeviceptr buffer = device.buffer.address();
  const cudnn::ConvolutionCall own = OwnCall(call.call, buffer);
  UCUDNN_RETURN_IF_ERROR(device.read.HoldBack(call.stream));
  for (SlicePlan* plan : {full_.get(), rest_.get()}) {
    if (plan == nullptr) continue;
    UCUDNN_RETURN_IF_ERROR(plan->Try(SliceAt(0, call, own, device)));
  }
  UCUDNN_RETURN_IF_ERROR(device.read.Record(call.stream));
  return device.read.HoldBack(device.stream.get());
}

KernelOutcome HaloKernel::Run(const KernelCall& call, ExchangeResources& device,
                              transport::Channel& channel) {
  if (form_.is_replicated) return {call.local.Run(call.call), Status::Ok()};
  const cudnn::ConvolutionCall own = OwnCall(call.call, device.buffer.address());
  // The rows of the first slices are exchanged before the rank's own call. Even if that call fails,
  // the other ranks get all rows.
  const int64_t at_once = std::min<int64_t>(problem_.n, static_cast<int64_t>(rooms_) * slice_);
  Status sent;
  for (int64_t image = 0; image < at_once && sent.ok() && !call.has_rows; image += slice_) {
    sent = ExchangeAt(image, call, own, device, channel);
  }
  KernelOutcome outcome = RunOwn(call, own, device);
  if (!sent.ok()) outcome.exact = sent;
  if (outcome.status != CUDNN_STATUS_SUCCESS && outcome.exact.ok()) {
    for (int64_t image = at_once; image < problem_.n && outcome.exact.ok(); image += slice_) {
      outcome.exact = ExchangeAt(image, call, own, device, channel);
    }
  }
  if (outcome.status != CUDNN_STATUS_SUCCESS || !outcome.exact.ok()) return outcome;
  outcome.exact = device.read.HoldBack(call.stream);
  if (outcome.exact.ok()) outcome.exact = CorrectAll(call, own, device, channel);
  if (outcome.exact.ok() && is_gradient()) outcome.exact = FinishGradient(call, device, channel);
  if (outcome.exact.ok()) outcome.exact = Leave(call, device);
  return outcome;
}

Status HaloKernel::Leave(const KernelCall& call, ExchangeResources& device) const {
  const CUstream exchanges = device.stream.get();
  if (IsDeferred(call)) {
    // A deferred call ends with the sum on the stream of exchanges. That stream has waited for the
    // caller's stream, so the events are recorded on the stream of exchanges.
    UCUDNN_RETURN_IF_ERROR(device.deferred.Record(exchanges));
    return device.read.Record(exchanges);
  }
  return LeaveBehind(call, device);
}

Status HaloKernel::FinishGradient(const KernelCall& call, ExchangeResources& device,
                                  transport::Channel& channel) {
  const CUdeviceptr sums = device.buffer.address() + gradient_place_;
  const bool wide = problem_.type == DataType::kDouble;
  const size_t count = cudnn::FilterBytes(problem_) / ElementBytes(problem_.type);
  const CUdeviceptr gradient =
      gradient_bytes_ > 0 ? sums : reinterpret_cast<CUdeviceptr>(call.call.w);
  if (!contributes_) {
    const size_t bytes = count * (wide ? sizeof(double) : sizeof(float));
    UCUDNN_RETURN_IF_ERROR(
        cuda::DriverStatus(*driver_, driver_->cuMemsetD8Async(gradient, 0, bytes, call.stream),
                           "clearing a copy of a gradient"));
  }
  if (sums_) {
    UCUDNN_RETURN_IF_ERROR(device.entered.Record(call.stream));
    UCUDNN_RETURN_IF_ERROR(device.entered.HoldBack(device.stream.get()));
    {
      const SpanScope span(call.times, Span::kSum, device.stream.get());
      UCUDNN_RETURN_IF_ERROR(channel.AllReduce(
          gradient, count, wide ? transport::Element::kFloat64 : transport::Element::kFloat32,
          device.stream.get()));
    }
    UCUDNN_RETURN_IF_ERROR(device.summed.Record(device.stream.get()));
    if (!IsDeferred(call)) {
      const SpanScope span(call.times, Span::kAwaitSum, call.stream);
      UCUDNN_RETURN_IF_ERROR(device.summed.HoldBack(call.stream));
    }
  }
  const cudnnHandle_t handle = IsDeferred(call) ? device.handle : call.call.handle;
  if (sum_ != nullptr) {
    const void* const alpha = form_.is_plan ? OneOf(problem_.type) : call.call.alpha;
    return cudnn::CudnnStatus(
        *functions_, sum_->Store(handle, ToPointer(sums), alpha, call.call.beta, call.call.w),
        "storing a gradient");
  }
  if (gradient_bytes_ == 0) return Status::Ok();
  return device.add.Run(handle, wide ? DataType::kDouble : DataType::kFloat, gradient, count,
                        call.call.beta, reinterpret_cast<CUdeviceptr>(call.call.w));
}

}  // namespace ucudnn::spatial
