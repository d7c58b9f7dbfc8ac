// Running what a slice's plan says, call by call.
#include "cuda/resources.h"
#include "spatial/scales.h"
#include "spatial/slice_plan.h"

namespace ucudnn::spatial {

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

CUdeviceptr SlicePlan::Address(const SliceCall& slice, const Fetch& fetch) const {
  const cudnn::ConvolutionCall& call = slice.call;
  const auto at = [&](const void* tensor) {
    return ToDevice(tensor) + static_cast<size_t>(fetch.from);
  };
  switch (fetch.source) {
    case Source::kReceived:
      return slice.buffer + static_cast<size_t>(fetch.from);
    case Source::kExchanged:
      return at(exchanges_gradient() ? call.y : call.x);
    case Source::kImage:
      return at(call.x);
    case Source::kFilter:
      return at(call.w);
    case Source::kFused:
      return at(call.bias != nullptr ? call.bias->z : call.fused->pointers[fetch.operand]);
    case Source::kResult:
      return at(call.*cudnn::OutputOf(problem_.operation));
  }
  return 0;
}

// -0, in any of the types: its last byte is 0x80.
Status SlicePlan::WriteArrival(CUdeviceptr number, CUstream stream) const {
  const size_t last = ElementBytes(problem_.type) - 1;
  CUresult result = driver_->cuMemsetD8Async(number, 0, last, stream);
  if (result == CUDA_SUCCESS) result = driver_->cuMemsetD8Async(number + last, 0x80, 1, stream);
  return cuda::DriverStatus(*driver_, result, "marking a message");
}

Status SlicePlan::Pack(const SliceCall& slice, CUstream stream) const {
  const CUdeviceptr exchanged = ToDevice(exchanges_gradient() ? slice.call.y : slice.call.x);
  for (const Packet& packet : sends_) {
    for (const Block& block : packet.blocks) {
      UCUDNN_RETURN_IF_ERROR(block.pack.Enqueue(*driver_,
                                                exchanged + static_cast<size_t>(block.from),
                                                slice.buffer + block.place, stream));
    }
    if (packet.arrival)
      UCUDNN_RETURN_IF_ERROR(WriteArrival(slice.buffer + *packet.arrival, stream));
  }
  if (received_end_ == 0) return Status::Ok();
  return cuda::DriverStatus(*driver_,
                            driver_->cuMemsetD8Async(slice.buffer, 0xFF, received_end_, stream),
                            "clearing what is received");
}

CUdeviceptr SlicePlan::ResultOf(const Step& step, const SliceCall& slice) {
  return (step.is_kept ? slice.kept : slice.buffer) + *step.result;
}

Status SlicePlan::Keep(const SliceCall& slice) const {
  for (const Step& step : steps_) {
    for (const Fetch& fetch : step.kept) {
      UCUDNN_RETURN_IF_ERROR(
          fetch.copy.Enqueue(*driver_, Address(slice, fetch), slice.kept + fetch.to, slice.stream));
    }
  }
  return Status::Ok();
}

Status SlicePlan::Correct(const SliceCall& slice) const {
  for (const Step& step : steps_) UCUDNN_RETURN_IF_ERROR(RunStep(step, slice));
  for (const Placed& placed : placed_) {
    UCUDNN_RETURN_IF_ERROR(
        placed.copy.Enqueue(*driver_, slice.buffer + placed.place,
                            ToDevice(slice.call.y) + static_cast<size_t>(placed.to), slice.stream));
  }
  return Status::Ok();
}

void SlicePlan::Fill(const Step& step, const SliceCall& slice, StepCall& to) const {
  cudnn::ConvolutionCall& call = to.call = slice.call;
  const auto at = [&](size_t place) { return ToPointer(slice.buffer + place); };
  if (exchanges_gradient()) {
    call.y = at(step.exchanged);
    if (problem_.operation == Operation::kBackwardFilter) call.x = at(step.image);
  } else {
    call.x = at(step.exchanged);
  }
  if (step.filter) call.w = at(*step.filter);
  call.workspace = at(step.workspace);
  if (call.fused != nullptr) {
    to.fused = *call.fused;
    call.fused = &to.fused;
  }
  if (call.bias != nullptr) {
    to.bias = *call.bias;
    call.bias = &to.bias;
  }
  for (const Step::Fused& operand : step.fused) {
    void* const place = ToPointer((step.keeps_fused ? slice.kept : slice.buffer) + operand.place);
    to.fused.pointers[operand.operand] = place;
    to.bias.z = place;
  }
}

Status SlicePlan::Try(const SliceCall& slice) const {
  if (steps_.empty()) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      *driver_, driver_->cuMemsetD8Async(slice.buffer, 0, buffer_bytes(), slice.stream),
      "clearing the buffer"));
  for (const Step& step : steps_) {
    StepCall filled;
    Fill(step, slice, filled);
    cudnn::ConvolutionCall& call = filled.call;
    call.beta = OneOf(problem_.type);
    if (slice.sum != nullptr) call.w = slice.sum->Partial(slice.sums);
    if (step.result) call.*cudnn::OutputOf(problem_.operation) = ToPointer(ResultOf(step, slice));
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(*functions_, step.convolution->Run(call),
                                              Describe(step.convolution->problem()).c_str()));
    UCUDNN_RETURN_IF_ERROR(AddArrivals(step, slice));
  }
  return Status::Ok();
}

Status SlicePlan::AddArrivals(const Step& step, const SliceCall& slice) const {
  for (const size_t place : step.arrivals) {
    UCUDNN_RETURN_IF_ERROR(slice.add.Spread(slice.call.handle, problem_.type, slice.buffer + place,
                                            step.result_count, ResultOf(step, slice)));
  }
  return Status::Ok();
}

Status SlicePlan::RunStep(const Step& step, const SliceCall& slice) const {
  const cuda::Driver& driver = *driver_;
  const CUdeviceptr buffer = slice.buffer;
  if (step.zero_bytes > 0) {
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver, driver.cuMemsetD8Async(buffer + step.zero_place, 0, step.zero_bytes, slice.stream),
        "clearing an assembled tensor"));
  }
  for (const Fetch& fetch : step.fetches) {
    UCUDNN_RETURN_IF_ERROR(
        fetch.copy.Enqueue(driver, Address(slice, fetch), buffer + fetch.to, slice.stream));
  }
  StepCall filled;
  Fill(step, slice, filled);
  cudnn::ConvolutionCall& call = filled.call;
  if (slice.sum != nullptr) return RunSummed(step, slice, call);
  if (step.is_added) call.beta = OneOf(problem_.type);
  void* const output = slice.call.*cudnn::OutputOf(problem_.operation);
  const CUdeviceptr result = ToDevice(output) + static_cast<size_t>(step.result_at);
  if (step.result) {
    call.*cudnn::OutputOf(problem_.operation) = ToPointer(ResultOf(step, slice));
    if (step.is_added) {
      UCUDNN_RETURN_IF_ERROR(
          step.fetch_result.Enqueue(driver, result, ResultOf(step, slice), slice.stream));
    }
  }
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(*functions_, step.convolution->Run(call),
                                            "computing what a halo contributes"));
  if (!step.result) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(AddArrivals(step, slice));
  return step.store_result.Enqueue(driver, ResultOf(step, slice), result, slice.stream);
}

// A 16-bit gradient: what the term contributes becomes a partial, with 0 where it says nothing.
Status SlicePlan::RunSummed(const Step& step, const SliceCall& slice,
                            cudnn::ConvolutionCall& call) const {
  const cuda::Driver& driver = *driver_;
  void* const partial = slice.sum->Partial(slice.sums);
  call.beta = ZeroOf(problem_.type);
  call.w = partial;
  if (step.result) {
    call.w = ToPointer(slice.buffer + *step.result);
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver,
        driver.cuMemsetD8Async(ToDevice(partial), 0, cudnn::FilterBytes(problem_), slice.stream),
        "clearing a partial gradient"));
  }
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(*functions_, step.convolution->Run(call),
                                            "computing what a halo contributes"));
  if (step.result) {
    UCUDNN_RETURN_IF_ERROR(step.store_result.Enqueue(
        driver, slice.buffer + *step.result,
        ToDevice(partial) + static_cast<size_t>(step.result_at), slice.stream));
  }
  return cudnn::CudnnStatus(*functions_, slice.sum->Add(call.handle, slice.sums, false),
                            "summing partial gradients");
}

}  // namespace ucudnn::spatial
