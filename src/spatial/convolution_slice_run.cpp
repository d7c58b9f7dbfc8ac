// The functions of ConvolutionSlice that run the plan of a slice, once for each call.
#include "cuda/resources.h"
#include "spatial/convolution_slice.h"
#include "spatial/device_numbers.h"

namespace ucudnn::spatial {

CUdeviceptr ConvolutionSlice::Address(const SliceCall& slice, const Fetch& fetch) const {
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

CUdeviceptr ConvolutionSlice::ResultOf(const Step& step, const SliceCall& slice) {
  return (step.is_kept ? slice.kept : slice.buffer) + *step.result;
}

Status ConvolutionSlice::Keep(const SliceCall& slice) const {
  for (const Step& step : steps_) {
    for (const Fetch& fetch : step.kept) {
      UCUDNN_RETURN_IF_ERROR(
          fetch.copy.Enqueue(*driver_, Address(slice, fetch), slice.kept + fetch.to, slice.stream));
    }
  }
  return Status::Ok();
}

Status ConvolutionSlice::Correct(const SliceCall& slice) const {
  for (const Step& step : steps_) UCUDNN_RETURN_IF_ERROR(RunStep(step, slice));
  for (const Placed& placed : placed_) {
    UCUDNN_RETURN_IF_ERROR(
        placed.copy.Enqueue(*driver_, slice.buffer + placed.place,
                            ToDevice(slice.call.y) + static_cast<size_t>(placed.to), slice.stream));
  }
  return Status::Ok();
}

void ConvolutionSlice::Fill(const Step& step, const SliceCall& slice, StepCall& to) const {
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

Status ConvolutionSlice::Try(const SliceCall& slice) const {
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
    UCUDNN_RETURN_IF_ERROR(
        AddArrivals(step.arrivals, slice, ResultOf(step, slice), step.result_count));
  }
  return Status::Ok();
}

Status ConvolutionSlice::RunStep(const Step& step, const SliceCall& slice) const {
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
  UCUDNN_RETURN_IF_ERROR(
      AddArrivals(step.arrivals, slice, ResultOf(step, slice), step.result_count));
  return step.store_result.Enqueue(driver, ResultOf(step, slice), result, slice.stream);
}

// Adds the contribution of a term to the sum of a 16-bit gradient. The contribution is computed as
// a partial gradient, in which the taps that the term lacks are 0.
Status ConvolutionSlice::RunSummed(const Step& step, const SliceCall& slice,
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
