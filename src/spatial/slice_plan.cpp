#include "spatial/slice_plan.h"

#include "cuda/resources.h"
#include "spatial/convolution_slice.h"
#include "spatial/device_numbers.h"
#include "spatial/pooling_slice.h"

namespace ucudnn::spatial {

BoxExtents ExtentsOf(int64_t n, int64_t channels, const SpatialBox& box) {
  return {n, channels, box[0].Length(), box[1].Length(), box[2].Length()};
}

int64_t OffsetOf(const SpatialBox& box, const Strides& strides, size_t element_bytes) {
  int64_t elements = 0;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    elements += box[axis].begin * strides[kAxisD + axis];
  }
  return elements * static_cast<int64_t>(element_bytes);
}

size_t SlicePlan::PlaceAllocator::Take(size_t bytes) {
  const size_t place = end_;
  end_ += Aligned(bytes);
  return place;
}

Result<std::unique_ptr<SlicePlan>> SlicePlan::Make(const PlanContext& context,
                                                   const GroupStripes& group,
                                                   const CallProperties& form) {
  if (form.work == SplitWork::kPooling) return PoolingSlice::Make(context, group, form);
  return ConvolutionSlice::Make(context, group, form);
}

SlicePlan::Packet SlicePlan::MakePacket(int peer, std::span<const OwnBox> boxes,
                                        size_t& end) const {
  const size_t element = ElementBytes(problem_.type);
  Packet packet = {peer, {}, end, 0, {}};
  for (const OwnBox& own : boxes) {
    const BoxExtents extents = ExtentsOf(problem_.n, ChannelsOf(own.tensor), own.box);
    const Strides& strides = StridesOf(own.tensor);
    packet.blocks.push_back({own.tensor,
                             BoxCopy(extents, strides, PackedStrides(layout_, extents), element),
                             OffsetOf(own.box, strides, element), end + packet.bytes});
    packet.bytes += static_cast<size_t>(Elements(extents)) * element;
  }
  if (form_.hides_nan) {
    packet.arrival = end + packet.bytes;
    packet.bytes += element;
  }
  end += Aligned(packet.bytes);
  return packet;
}

void SlicePlan::TakePackets(std::vector<Packet> receives, std::vector<Packet> sends,
                            size_t received_end, size_t end) {
  receives_ = std::move(receives);
  sends_ = std::move(sends);
  received_end_ = received_end;
  shared_end_ = end;
  sent_.resize(sends_.size());
  received_.resize(receives_.size());
}

size_t SlicePlan::received_bytes() const {
  size_t bytes = 0;
  for (const Packet& packet : receives_) bytes += packet.bytes;
  return bytes;
}

size_t SlicePlan::sent_bytes() const {
  size_t bytes = 0;
  for (const Packet& packet : sends_) bytes += packet.bytes;
  return bytes;
}

std::span<const transport::Message> SlicePlan::Sends(CUdeviceptr buffer) {
  for (size_t i = 0; i < sends_.size(); ++i) {
    sent_[i] = {sends_[i].peer, buffer + sends_[i].place, sends_[i].bytes};
  }
  return sent_;
}

std::span<const transport::Message> SlicePlan::Receives(CUdeviceptr buffer) {
  for (size_t i = 0; i < receives_.size(); ++i) {
    received_[i] = {receives_[i].peer, buffer + receives_[i].place, receives_[i].bytes};
  }
  return received_;
}

CUdeviceptr SlicePlan::TensorOf(Exchange tensor, const cudnn::ConvolutionCall& call) {
  if (tensor == Exchange::kOutput) return ToDevice(call.y);
  return ToDevice(call.pooling != nullptr ? call.pooling->x : call.x);
}

// In every type, -0 consists of zero bytes and a last byte of 0x80.
Status WriteArrival(const cuda::Driver& driver, DataType type, CUdeviceptr number,
                    CUstream stream) {
  const size_t last = ElementBytes(type) - 1;
  CUresult result = driver.cuMemsetD8Async(number, 0, last, stream);
  if (result == CUDA_SUCCESS) result = driver.cuMemsetD8Async(number + last, 0x80, 1, stream);
  return cuda::DriverStatus(driver, result, "marking a message");
}

Status SlicePlan::Pack(const SliceCall& slice, CUstream stream) const {
  for (const Packet& packet : sends_) {
    for (const Block& block : packet.blocks) {
      UCUDNN_RETURN_IF_ERROR(block.pack.Enqueue(
          *driver_, TensorOf(block.tensor, slice.call) + static_cast<size_t>(block.from),
          slice.buffer + block.place, stream));
    }
    if (packet.arrival)
      UCUDNN_RETURN_IF_ERROR(
          WriteArrival(*driver_, problem_.type, slice.buffer + *packet.arrival, stream));
  }
  if (received_end_ == 0) return Status::Ok();
  return cuda::DriverStatus(*driver_,
                            driver_->cuMemsetD8Async(slice.buffer, 0xFF, received_end_, stream),
                            "clearing what is received");
}

Status SlicePlan::AddArrivals(std::span<const size_t> arrivals, const SliceCall& slice,
                              CUdeviceptr result, size_t count) const {
  for (const size_t place : arrivals) {
    UCUDNN_RETURN_IF_ERROR(
        slice.add.Spread(slice.call.handle, problem_.type, slice.buffer + place, count, result));
  }
  return Status::Ok();
}

}  // namespace ucudnn::spatial
