#include "spatial/pooling_slice.h"

#include <algorithm>

#include "cuda/resources.h"
#include "spatial/device_numbers.h"

namespace ucudnn::spatial {
namespace {

// Returns `box` with positions counted from the beginning of `from`.
SpatialBox CountedFrom(const SpatialBox& from, const SpatialBox& box) {
  SpatialBox counted;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    counted[axis] = {box[axis].begin - from[axis].begin, box[axis].end - from[axis].begin};
  }
  return counted;
}

}  // namespace

Result<std::unique_ptr<SlicePlan>> PoolingSlice::Make(const PlanContext& context,
                                                      const GroupStripes& group,
                                                      const CallProperties& form) {
  std::unique_ptr<PoolingSlice> plan(new PoolingSlice(context, group, form));
  std::vector<PooledMessage> receives = PooledReceives(group.stripes);
  std::erase_if(receives, [&](const PooledMessage& message) {
    return plan->BoxesOf(message.boxes, message.boxes).empty();
  });
  plan->PlanPackets(group, receives);
  for (const PooledBox& box : PooledBoxes(group.stripes)) {
    UCUDNN_RETURN_IF_ERROR(plan->PlanStep(group.stripes, receives, box));
  }
  return std::unique_ptr<SlicePlan>(std::move(plan));
}

std::vector<SlicePlan::OwnBox> PoolingSlice::BoxesOf(const PooledBoxPair& boxes,
                                                     const PooledBoxPair& counted_from) const {
  std::vector<OwnBox> own;
  if (reads_image() && Elements(boxes.elements) > 0) {
    own.push_back({Exchange::kImage, CountedFrom(counted_from.elements, boxes.elements)});
  }
  if (!is_forward() && Elements(boxes.windows) > 0) {
    own.push_back({Exchange::kOutput, CountedFrom(counted_from.windows, boxes.windows)});
  }
  return own;
}

void PoolingSlice::PlanPackets(const GroupStripes& group, std::span<const PooledMessage> received) {
  const Stripes& stripes = group.stripes;
  const auto rank_of = [&](int cell) { return group.ranks[static_cast<size_t>(cell)]; };
  std::vector<Packet> receives, sends;
  size_t end = 0;
  for (const PooledMessage& message : received) {
    const auto boxes = BoxesOf(message.boxes, OwnedByPooling(stripes, message.peer));
    receives.push_back(MakePacket(rank_of(message.peer), boxes, end));
  }
  const size_t received_end = end;
  for (const PooledMessage& message : PooledSends(stripes)) {
    const auto boxes = BoxesOf(message.boxes, OwnedByPooling(stripes, stripes.cell));
    if (!boxes.empty()) sends.push_back(MakePacket(rank_of(message.peer), boxes, end));
  }
  TakePackets(std::move(receives), std::move(sends), received_end, end);
}

PoolingSlice::Assembled PoolingSlice::Assemble(Exchange tensor, const Stripes& stripes,
                                               std::span<const PooledMessage> receives,
                                               const PooledBox& box, PlaceAllocator& places,
                                               Step& step) const {
  const size_t element = ElementBytes(problem_.type);
  const SpatialBox PooledBoxPair::*of =
      tensor == Exchange::kImage ? &PooledBoxPair::elements : &PooledBoxPair::windows;
  const SpatialBox& whole = tensor == Exchange::kImage ? box.elements : box.windows;
  const SpatialBox& read = box.read.*of;
  const BoxExtents extents = ExtentsOf(problem_.n, problem_.c, whole);
  const Strides packed = PackedStrides(layout_, extents);
  Assembled assembled;
  assembled.bytes = static_cast<size_t>(Elements(extents)) * element;
  assembled.place = places.Take(assembled.bytes);
  assembled.is_complete = read == whole;
  const auto add = [&](Fetch::Source source, const SpatialBox& from, const Strides& strides,
                       size_t place) {
    const SpatialBox part = Intersection(read, from);
    if (Elements(part) == 0) return false;
    step.fetches.push_back(
        {source, BoxCopy(ExtentsOf(problem_.n, problem_.c, part), strides, packed, element),
         static_cast<int64_t>(place) + OffsetOf(CountedFrom(from, part), strides, element),
         assembled.place +
             static_cast<size_t>(OffsetOf(CountedFrom(whole, part), packed, element))});
    return true;
  };
  add(tensor == Exchange::kImage ? Fetch::Source::kImage : Fetch::Source::kOutput,
      OwnedByPooling(stripes, stripes.cell).*of, StridesOf(tensor), 0);
  for (size_t m = 0; m < receives.size(); ++m) {
    const SpatialBox& from = receives[m].boxes.*of;
    const Packet& packet = receives_[m];
    for (const Block& block : packet.blocks) {
      if (block.tensor != tensor) continue;
      const Strides strides = PackedStrides(layout_, ExtentsOf(problem_.n, problem_.c, from));
      if (!add(Fetch::Source::kReceived, from, strides, block.place) || !packet.arrival) continue;
      if (std::ranges::count(step.arrivals, *packet.arrival) == 0) {
        step.arrivals.push_back(*packet.arrival);
      }
    }
  }
  return assembled;
}

void PoolingSlice::PlanResult(const Stripes& stripes, const PooledBox& box, PlaceAllocator& places,
                              Step& step) {
  const size_t element = ElementBytes(problem_.type);
  const PooledBoxPair own = OwnedByPooling(stripes, stripes.cell);
  const SpatialBox& whole = is_forward() ? box.windows : box.elements;
  const SpatialBox& owned = is_forward() ? own.windows : own.elements;
  const Strides& strides = is_forward() ? problem_.y_strides : problem_.x_strides;
  const BoxExtents extents = ExtentsOf(problem_.n, problem_.c, whole);
  const BoxExtents wanted = ExtentsOf(problem_.n, problem_.c, box.result);
  const Strides packed = PackedStrides(layout_, extents);
  const Strides tight = PackedStrides(layout_, wanted);
  step.count = static_cast<size_t>(Elements(extents));
  step.result = places.Take(step.count * element);
  step.wanted =
      step.result + static_cast<size_t>(OffsetOf(CountedFrom(whole, box.result), packed, element));
  step.store = BoxCopy(wanted, packed, strides, element);
  step.stored = OffsetOf(CountedFrom(owned, box.result), strides, element);
  if (!form_.reads_result) return;
  step.keep = BoxCopy(wanted, strides, tight, element);
  step.put = BoxCopy(wanted, tight, packed, element);
  step.kept = kept_bytes_;
  kept_bytes_ += Aligned(static_cast<size_t>(Elements(wanted)) * element);
}

Status PoolingSlice::PlanStep(const Stripes& stripes, std::span<const PooledMessage> receives,
                              const PooledBox& box) {
  Step step;
  PlaceAllocator places(received_end_);
  ConvolutionProblem small = problem_;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    small.x[axis] = static_cast<int32_t>(box.elements[axis].Length());
  }
  small.layout = layout_;
  SetPackedStrides(small);
  step.pooling = std::make_unique<cudnn::OwnedPooling>(*functions_);
  UCUDNN_RETURN_IF_ERROR(step.pooling->Create(small, form_.pooling));
  const size_t element = ElementBytes(problem_.type);
  const auto bytes = [&](const SpatialBox& whole) {
    return static_cast<size_t>(Elements(ExtentsOf(problem_.n, problem_.c, whole))) * element;
  };
  // The gradient of an average does not depend on the image, so the image's place may contain any
  // values.
  if (reads_image()) {
    step.x = Assemble(Exchange::kImage, stripes, receives, box, places, step);
  } else {
    step.x = {places.Take(bytes(box.elements)), bytes(box.elements), true};
  }
  if (!is_forward()) {
    step.y = places.Take(bytes(box.windows));
    step.dy = Assemble(Exchange::kOutput, stripes, receives, box, places, step);
  }
  PlanResult(stripes, box, places, step);
  shared_end_ = std::max(shared_end_, places.end());
  steps_.push_back(std::move(step));
  return Status::Ok();
}

Status PoolingSlice::Keep(const SliceCall& slice) const {
  const void* const output = slice.call.*cudnn::OutputOf(problem_.operation);
  if (!form_.reads_result) return Status::Ok();
  for (const Step& step : steps_) {
    UCUDNN_RETURN_IF_ERROR(step.keep.Enqueue(*driver_,
                                             ToDevice(output) + static_cast<size_t>(step.stored),
                                             slice.kept + step.kept, slice.stream));
  }
  return Status::Ok();
}

Status PoolingSlice::RunPooling(const Step& step, const SliceCall& slice) const {
  const auto at = [&](size_t place) { return ToPointer(slice.buffer + place); };
  cudnn::ConvolutionCall call = slice.call;
  call.x = at(step.x.place);
  if (is_forward()) {
    call.y = at(step.result);
    return cudnn::CudnnStatus(*functions_, cudnn::Pool(*functions_, step.pooling->get(), call),
                              "pooling at a cut");
  }
  if (form_.pooling.is_maximum()) {
    cudnn::ConvolutionCall maxima = call;
    maxima.operation = Operation::kForward;
    maxima.alpha = OneOf(problem_.type);
    maxima.beta = ZeroOf(problem_.type);
    maxima.y = at(step.y);
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(*functions_,
                                              cudnn::Pool(*functions_, step.pooling->get(), maxima),
                                              "pooling at a cut again"));
  }
  const cudnn::PoolingOperands operands = {at(step.x.place), at(step.y)};
  call.pooling = &operands;
  call.x = at(step.result);
  call.y = at(step.dy.place);
  return cudnn::CudnnStatus(*functions_, cudnn::Pool(*functions_, step.pooling->get(), call),
                            "the gradient of a pooling at a cut");
}

Status PoolingSlice::Try(const SliceCall& slice) const {
  if (steps_.empty()) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      *driver_, driver_->cuMemsetD8Async(slice.buffer, 0, buffer_bytes(), slice.stream),
      "clearing the buffer"));
  for (const Step& step : steps_) {
    UCUDNN_RETURN_IF_ERROR(RunPooling(step, slice));
    UCUDNN_RETURN_IF_ERROR(
        AddArrivals(step.arrivals, slice, slice.buffer + step.result, step.count));
  }
  return Status::Ok();
}

Status PoolingSlice::RunStep(const Step& step, const SliceCall& slice) const {
  const cuda::Driver& driver = *driver_;
  for (const Assembled* const assembled : {&step.x, &step.dy}) {
    if (assembled->bytes == 0 || assembled->is_complete) continue;
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver,
        driver.cuMemsetD8Async(slice.buffer + assembled->place, 0, assembled->bytes, slice.stream),
        "clearing an assembled tensor"));
  }
  for (const Fetch& fetch : step.fetches) {
    const CUdeviceptr source = fetch.source == Fetch::Source::kReceived ? slice.buffer
                               : fetch.source == Fetch::Source::kOutput
                                   ? ToDevice(slice.call.y)
                                   : ToDevice(is_forward() ? slice.call.x : slice.call.pooling->x);
    UCUDNN_RETURN_IF_ERROR(fetch.copy.Enqueue(driver, source + static_cast<size_t>(fetch.from),
                                              slice.buffer + fetch.to, slice.stream));
  }
  if (form_.reads_result) {
    UCUDNN_RETURN_IF_ERROR(
        step.put.Enqueue(driver, slice.kept + step.kept, slice.buffer + step.wanted, slice.stream));
  }
  UCUDNN_RETURN_IF_ERROR(RunPooling(step, slice));
  UCUDNN_RETURN_IF_ERROR(AddArrivals(step.arrivals, slice, slice.buffer + step.result, step.count));
  const void* const output = slice.call.*cudnn::OutputOf(problem_.operation);
  return step.store.Enqueue(driver, slice.buffer + step.wanted,
                            ToDevice(output) + static_cast<size_t>(step.stored), slice.stream);
}

Status PoolingSlice::Correct(const SliceCall& slice) const {
  for (const Step& step : steps_) UCUDNN_RETURN_IF_ERROR(RunStep(step, slice));
  return Status::Ok();
}

}  // namespace ucudnn::spatial
