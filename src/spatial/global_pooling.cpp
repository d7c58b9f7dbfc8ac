#include "spatial/global_pooling.h"

#include "spatial/device_numbers.h"

namespace ucudnn::spatial {
namespace {

// Returns the extents n, c, d, h, w of a pooling's result.
BoxExtents ResultExtents(const ConvolutionProblem& problem) {
  const Spatial y = OutputExtents(problem);
  return {problem.n, problem.c, y[0], y[1], y[2]};
}

size_t PackedBytes(const ConvolutionProblem& problem, const BoxExtents& extents) {
  return static_cast<size_t>(Elements(extents)) * ElementBytes(problem.type);
}

}  // namespace

GlobalPooling::GlobalPooling(const PlanContext& context, const GroupStripes& group,
                             const CallProperties& form)
    : SplitKernel(context, group, form),
      ranks_(*group.pooled),
      layout_(group.layout),
      stripe_(context.functions),
      grid_(context.functions) {}

Result<std::unique_ptr<SplitKernel>> GlobalPooling::Make(const PlanContext& context,
                                                         const GroupStripes& group,
                                                         const CallProperties& form) {
  std::unique_ptr<GlobalPooling> kernel(new GlobalPooling(context, group, form));
  ConvolutionProblem stripe = kernel->problem_;
  const BoxExtents result = ResultExtents(stripe);
  stripe.y_strides = PackedStrides(kernel->layout_, result);
  UCUDNN_RETURN_IF_ERROR(kernel->stripe_.Create(stripe, form.pooling));
  UCUDNN_RETURN_IF_ERROR(kernel->PlanGrid());
  if (kernel->exchanges()) kernel->PlanPlaces();
  return std::unique_ptr<SplitKernel>(std::move(kernel));
}

Status GlobalPooling::PlanGrid() {
  const BoxExtents result = ResultExtents(problem_);
  const size_t element = ElementBytes(problem_.type);
  grid_problem_ = problem_;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const bool is_pooled = ranks_.axes[axis];
    grid_problem_.x[axis] = is_pooled ? ranks_.parts[axis] : static_cast<int32_t>(result[2 + axis]);
    grid_problem_.w[axis] = is_pooled ? ranks_.parts[axis] : 1;
    grid_problem_.stride[axis] = 1;
    grid_problem_.pad[axis] = 0;
  }
  grid_problem_.layout = layout_;
  SetPackedStrides(grid_problem_);
  const Strides packed = PackedStrides(layout_, result);
  for (int rank = 0; rank < static_cast<int>(ranks_.ranks.size()); ++rank) {
    const int w = ranks_.parts[2], h = ranks_.parts[1];
    const SpatialBox at = {Interval{rank / (h * w), 0}, Interval{rank / w % h, 0},
                           Interval{rank % w, 0}};
    assemble_.emplace_back(result, packed, grid_problem_.x_strides, element);
    assembled_.push_back(static_cast<size_t>(OffsetOf(at, grid_problem_.x_strides, element)));
  }
  own_ = BoxCopy(result, grid_problem_.x_strides, packed, element);
  store_ = BoxCopy(result, packed, problem_.y_strides, element);
  fetch_ = BoxCopy(result, problem_.y_strides, packed, element);
  return grid_.Create(grid_problem_, form_.pooling);
}

void GlobalPooling::PlanPlaces() {
  const BoxExtents result = ResultExtents(problem_);
  const size_t element = ElementBytes(problem_.type), bytes = PackedBytes(problem_, result);
  count_ = static_cast<size_t>(Elements(result));
  arrival_ = bytes;
  const size_t message = bytes + (form_.hides_nan ? element : 0);
  slots_.emplace(ranks_.ranks, ranks_.own, Aligned(message), message);
  size_t end = slots_->slots_bytes();
  const auto take = [&](size_t of) {
    const size_t place = end;
    end += Aligned(of);
    return place;
  };
  const size_t grid_bytes = ranks_.ranks.size() * bytes;
  grid_place_ = take(grid_bytes);
  result_place_ = take(bytes);
  if (!is_forward()) {
    dy_place_ = take(bytes);
    gradient_place_ = take(grid_bytes);
    part_place_ = take(bytes);
  }
  buffer_bytes_ = end;
  sent_bytes_ = received_bytes_ = slots_->received_bytes();
}

Status GlobalPooling::PoolStripe(const KernelCall& call, CUdeviceptr buffer) const {
  // Each stripe's average is scaled by the stripe's share of the image, so that the scaled averages
  // add up to the average over all positions.
  const Factor alpha(form_.pooling.is_maximum() ? 1 : ranks_.shares[ranks_.own]);
  cudnn::ConvolutionCall own = call.call;
  own.operation = Operation::kForward;
  own.alpha = alpha.Of(problem_.type);
  own.beta = ZeroOf(problem_.type);
  if (!is_forward()) own.x = const_cast<void*>(call.call.pooling->x);
  own.y = ToPointer(PartialOf(ranks_.own, buffer));
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
      *functions_, cudnn::Pool(*functions_, stripe_.get(), own), "pooling a stripe"));
  if (!form_.hides_nan) return Status::Ok();
  return WriteArrival(*driver_, problem_.type, PartialOf(ranks_.own, buffer) + arrival_,
                      call.stream);
}

Status GlobalPooling::PoolGrid(const KernelCall& call, CUdeviceptr buffer) const {
  for (size_t rank = 0; rank < assemble_.size(); ++rank) {
    UCUDNN_RETURN_IF_ERROR(assemble_[rank].Enqueue(
        *driver_, PartialOf(rank, buffer), buffer + grid_place_ + assembled_[rank], call.stream));
  }
  const double count = form_.pooling.is_maximum() ? 1 : static_cast<double>(ranks_.ranks.size());
  const Factor alpha(count * cudnn::ScaleOf(call.call.alpha, problem_.type));
  cudnn::ConvolutionCall grid = call.call;
  grid.operation = Operation::kForward;
  grid.alpha = alpha.Of(problem_.type);
  if (!is_forward()) {
    grid.alpha = OneOf(problem_.type);
    grid.beta = ZeroOf(problem_.type);
  }
  grid.x = ToPointer(buffer + grid_place_);
  grid.y = ToPointer(buffer + result_place_);
  return cudnn::CudnnStatus(*functions_, cudnn::Pool(*functions_, grid_.get(), grid),
                            "pooling what came of all stripes");
}

Status GlobalPooling::PoolGridBack(const KernelCall& call, CUdeviceptr buffer) const {
  const cudnn::PoolingOperands operands = {ToPointer(buffer + grid_place_),
                                           ToPointer(buffer + result_place_)};
  cudnn::ConvolutionCall grid = call.call;
  grid.alpha = OneOf(problem_.type);
  grid.beta = ZeroOf(problem_.type);
  grid.pooling = &operands;
  grid.y = ToPointer(buffer + dy_place_);
  grid.x = ToPointer(buffer + gradient_place_);
  return cudnn::CudnnStatus(*functions_, cudnn::Pool(*functions_, grid_.get(), grid),
                            "the gradient of what came of all stripes");
}

Status GlobalPooling::AddArrivals(const KernelCall& call, ExchangeResources& device,
                                  CUdeviceptr to) const {
  if (!form_.hides_nan) return Status::Ok();
  for (size_t rank = 0; rank < ranks_.ranks.size(); ++rank) {
    if (rank == ranks_.own) continue;
    UCUDNN_RETURN_IF_ERROR(device.add.Spread(call.call.handle, problem_.type,
                                             PartialOf(rank, device.buffer.address()) + arrival_,
                                             count_, to));
  }
  return Status::Ok();
}

Status GlobalPooling::Finish(const KernelCall& call, ExchangeResources& device) const {
  const CUdeviceptr buffer = device.buffer.address(), result = buffer + result_place_;
  if (form_.reads_result) {
    UCUDNN_RETURN_IF_ERROR(fetch_.Enqueue(*driver_, ToDevice(call.call.y), result, call.stream));
  }
  UCUDNN_RETURN_IF_ERROR(PoolGrid(call, buffer));
  UCUDNN_RETURN_IF_ERROR(AddArrivals(call, device, result));
  return store_.Enqueue(*driver_, result, ToDevice(call.call.y), call.stream);
}

Status GlobalPooling::FinishGradient(const KernelCall& call, ExchangeResources& device) const {
  const CUdeviceptr buffer = device.buffer.address(), part = buffer + part_place_;
  UCUDNN_RETURN_IF_ERROR(PoolGrid(call, buffer));
  UCUDNN_RETURN_IF_ERROR(
      fetch_.Enqueue(*driver_, ToDevice(call.call.y), buffer + dy_place_, call.stream));
  UCUDNN_RETURN_IF_ERROR(PoolGridBack(call, buffer));
  UCUDNN_RETURN_IF_ERROR(
      own_.Enqueue(*driver_, buffer + gradient_place_ + assembled_[ranks_.own], part, call.stream));
  UCUDNN_RETURN_IF_ERROR(AddArrivals(call, device, part));
  const cudnn::PoolingOperands operands = {call.call.pooling->x,
                                           ToPointer(PartialOf(ranks_.own, buffer))};
  cudnn::ConvolutionCall own = call.call;
  own.pooling = &operands;
  own.y = ToPointer(part);
  return cudnn::CudnnStatus(*functions_, cudnn::Pool(*functions_, stripe_.get(), own),
                            "the gradient of a stripe's pooling");
}

Status GlobalPooling::TryAll(const KernelCall& call, ExchangeResources& device) const {
  const CUdeviceptr buffer = device.buffer.address();
  UCUDNN_RETURN_IF_ERROR(
      cuda::DriverStatus(*driver_, driver_->cuMemsetD8Async(buffer, 0, buffer_bytes_, call.stream),
                         "clearing the buffer"));
  UCUDNN_RETURN_IF_ERROR(PoolStripe(call, buffer));
  UCUDNN_RETURN_IF_ERROR(PoolGrid(call, buffer));
  if (!is_forward()) UCUDNN_RETURN_IF_ERROR(PoolGridBack(call, buffer));
  return AddArrivals(call, device, buffer + result_place_);
}

Status GlobalPooling::Try(const KernelCall& call, ExchangeResources& device) {
  if (!exchanges()) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(device.read.HoldBack(call.stream));
  const Status tried = TryAll(call, device);
  const Status left = LeaveBehind(call, device);
  return tried.ok() ? left : tried;
}

KernelOutcome GlobalPooling::Run(const KernelCall& call, ExchangeResources& device,
                                 transport::Channel& channel) {
  if (!exchanges()) {
    // Each stripe gets its share of the gradient of the average over all positions.
    const Factor alpha(cudnn::ScaleOf(call.call.alpha, problem_.type) * ranks_.shares[ranks_.own]);
    cudnn::ConvolutionCall own = call.call;
    own.alpha = alpha.Of(problem_.type);
    return {call.local.Run(own), Status::Ok()};
  }
  KernelOutcome outcome;
  outcome.exact = device.read.HoldBack(call.stream);
  if (outcome.exact.ok()) {
    const SpanScope span(call.times, Span::kOwn, call.stream);
    outcome.exact = PoolStripe(call, device.buffer.address());
  }
  // Even if pooling the stripe failed, the other ranks must get a message.
  const Status sent = slots_->Run(call, outcome.exact.ok(), device, channel);
  if (!sent.ok()) outcome.exact = sent;
  if (outcome.exact.ok()) {
    outcome.exact = is_forward() ? Finish(call, device) : FinishGradient(call, device);
  }
  if (outcome.exact.ok()) outcome.exact = LeaveBehind(call, device);
  return outcome;
}

}  // namespace ucudnn::spatial
