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

void* SlicePlan::Address(const SliceCall& slice, Source source) const {
  switch (source) {
    case Source::kReceived:
      return ToPointer(slice.buffer);
    case Source::kExchanged:
      return exchanges_gradient() ? slice.call.y : slice.call.x;
    case Source::kImage:
      return slice.call.x;
    case Source::kFilter:
      return slice.call.w;
    case Source::kResidual:
      return const_cast<void*>(slice.call.bias->z);
  }
  return nullptr;
}

Status SlicePlan::Pack(const SliceCall& slice, CUstream stream) const {
  const CUdeviceptr exchanged = ToDevice(Address(slice, Source::kExchanged));
  for (const Packet& packet : sends_) {
    for (const Block& block : packet.blocks) {
      UCUDNN_RETURN_IF_ERROR(block.pack.Enqueue(*driver_,
                                                exchanged + static_cast<size_t>(block.from),
                                                slice.buffer + block.place, stream));
    }
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
  const CUdeviceptr result = ToDevice(slice.call.*cudnn::OutputOf(problem_.operation));
  for (const Step& step : steps_) {
    if (!step.is_kept) continue;
    UCUDNN_RETURN_IF_ERROR(step.fetch_result.Enqueue(*driver_,
                                                     result + static_cast<size_t>(step.result_at),
                                                     ResultOf(step, slice), slice.stream));
  }
  return Status::Ok();
}

Status SlicePlan::Correct(const SliceCall& slice) const {
  for (const Step& step : steps_) UCUDNN_RETURN_IF_ERROR(RunStep(step, slice));
  return Status::Ok();
}

cudnn::ConvolutionCall SlicePlan::CallOf(const Step& step, const SliceCall& slice) const {
  cudnn::ConvolutionCall call = slice.call;
  const auto at = [&](size_t place) { return ToPointer(slice.buffer + place); };
  if (exchanges_gradient()) {
    call.y = at(step.exchanged);
    if (problem_.operation == Operation::kBackwardFilter) call.x = at(step.image);
  } else {
    call.x = at(step.exchanged);
  }
  if (step.filter) call.w = at(*step.filter);
  call.workspace = at(step.workspace);
  return call;
}

Status SlicePlan::Try(const SliceCall& slice) const {
  if (steps_.empty()) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      *driver_, driver_->cuMemsetD8Async(slice.buffer, 0, buffer_bytes(), slice.stream),
      "clearing the buffer"));
  for (const Step& step : steps_) {
    cudnn::ConvolutionCall call = CallOf(step, slice);
    call.beta = OneOf(problem_.type);
    if (slice.sum != nullptr) call.w = slice.sum->Partial(slice.sums);
    if (step.result) call.*cudnn::OutputOf(problem_.operation) = ToPointer(ResultOf(step, slice));
    cudnn::BiasActivation bias;
    if (call.bias != nullptr) {
      bias = *call.bias;
      bias.z = ToPointer((step.is_kept ? slice.kept : slice.buffer) + step.residual);
      call.bias = &bias;
    }
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(*functions_, step.convolution->Run(call),
                                              Describe(step.convolution->problem()).c_str()));
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
    UCUDNN_RETURN_IF_ERROR(fetch.copy.Enqueue(
        driver, ToDevice(Address(slice, fetch.source)) + static_cast<size_t>(fetch.from),
        buffer + fetch.to, slice.stream));
  }
  cudnn::ConvolutionCall call = CallOf(step, slice);
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
  cudnn::BiasActivation bias;
  if (call.bias != nullptr) {
    bias = *call.bias;
    bias.z = ToPointer((step.is_kept ? slice.kept : buffer) + step.residual);
    call.bias = &bias;
  }
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(*functions_, step.convolution->Run(call),
                                            "computing what a halo contributes"));
  if (!step.result) return Status::Ok();
  return step.store_result.Enqueue(driver, ResultOf(step, slice), result, slice.stream);
}

// A 16-bit gradient: what the term contributes becomes a partial, with 0 where it says nothing.
Status SlicePlan::RunSummed(const Step& step, const SliceCall& slice,
                            cudnn::ConvolutionCall& call) const {
  const cuda::Driver& driver = *driver_;
  void* const partial = slice.sum->Partial(slice.sums);
  call.alpha = OneOf(problem_.type);
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
