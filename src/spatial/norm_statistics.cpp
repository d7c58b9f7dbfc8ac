#include "spatial/norm_statistics.h"

#include <utility>

#include "cudnn/convolution_call.h"
#include "spatial/device_numbers.h"

namespace ucudnn::spatial {
namespace {

bool IsHalf(const void* one, const void* other) { return (one == nullptr) != (other == nullptr); }

}  // namespace

NormStatistics::NormStatistics(const cudnn::Functions& functions, const NormSlices& slices,
                               std::unique_ptr<ChannelNumbers> numbers)
    : functions_(functions), slices_(slices), numbers_(std::move(numbers)) {
  for (size_t slice = 0; slice < slices_.counts.size(); ++slice) count_ += CountOf(slice);
}

Result<std::unique_ptr<NormStatistics>> NormStatistics::Make(const cudnn::Functions& functions,
                                                             const NormSlices& slices) {
  if (functions.cudnnBatchNormalizationForwardTraining == nullptr ||
      functions.cudnnBatchNormalizationBackward == nullptr) {
    return Status::Error("the real cuDNN lacks batch normalisation");
  }
  const DataType type = slices.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  UCUDNN_ASSIGN_OR_RETURN(auto numbers, ChannelNumbers::Make(functions, type, slices.channels));
  return std::unique_ptr<NormStatistics>(new NormStatistics(functions, slices, std::move(numbers)));
}

// Writes the slice's mean and variance to the scratch memory by one training call. The call gets
// factor 1 and its running statistics in the scratch memory, so it sets them to the slice's
// statistics. They are 0 before the call, because cuDNN does not document whether a call with
// factor 1 reads them.
cudnnStatus_t NormStatistics::WriteOwnStatistics(cudnn::NormTraining call,
                                                 CUdeviceptr scratch) const {
  const CUdeviceptr mean = First(scratch, slices_.own), variance = Second(scratch, slices_.own);
  for (const CUdeviceptr running : {mean, variance}) {
    if (!numbers_->Set(call.handle, 0, running).ok()) return CUDNN_STATUS_EXECUTION_FAILED;
  }
  call.factor = 1;
  call.running_mean = ToPointer(mean);
  call.running_variance = ToPointer(variance);
  call.saved_mean = call.saved_inverse = nullptr;
  return cudnn::Normalize(functions_, call);
}

cudnnStatus_t NormStatistics::RunOwn(const cudnn::NormTraining& call, CUdeviceptr scratch) const {
  if (call.alpha == nullptr || call.beta == nullptr ||
      IsHalf(call.saved_mean, call.saved_inverse)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  cudnn::NormTraining own = call;
  if (cudnn::ScaleOf(call.beta, slices_.type) != 0 || call.x == call.y) {
    // y must stay unchanged, so alpha is 0. An epsilon of 0 is replaced, because a constant slice
    // would give NaN, and 0 times NaN is NaN.
    own.alpha = ZeroOf(slices_.type);
    own.beta = OneOf(slices_.type);
    if (call.epsilon == 0) own.epsilon = 1;
  }
  return WriteOwnStatistics(own, scratch);
}

// Leaves dx unchanged, because dx may have the address of dy, and because a later step reads the
// old dx if beta is not 0.
cudnnStatus_t NormStatistics::RunOwnStatistics(const cudnn::NormGradient& call,
                                               CUdeviceptr scratch) const {
  cudnn::NormTraining own;
  own.handle = call.handle;
  own.mode = call.mode;
  own.alpha = ZeroOf(slices_.type);
  own.beta = OneOf(slices_.type);
  own.x_layout = call.x_layout;
  own.x = call.x;
  own.y_layout = call.dx_layout;
  own.y = call.dx;
  own.parameters = call.parameters;
  own.scale = own.bias = call.scale;  // the values do not matter
  own.epsilon = call.epsilon == 0 ? 1 : call.epsilon;
  return WriteOwnStatistics(own, scratch);
}

Status NormStatistics::Combine(cudnnHandle_t handle, CUdeviceptr scratch) const {
  const CUdeviceptr first = First(scratch, 0), shift = scratch + Place(kShift),
                    deviation = scratch + Place(kDeviation), variance = scratch + Place(kVariance);
  UCUDNN_RETURN_IF_ERROR(numbers_->Set(handle, 0, shift));
  for (size_t slice = 1; slice < slices_.counts.size(); ++slice) {
    // Makes the slice's mean relative to the first slice's mean.
    const CUdeviceptr mean = First(scratch, slice);
    UCUDNN_RETURN_IF_ERROR(numbers_->Sum(handle, 1, mean, -1, first, mean));
    UCUDNN_RETURN_IF_ERROR(numbers_->Add(handle, CountOf(slice) / count_, mean, 1, shift));
  }
  UCUDNN_RETURN_IF_ERROR(
      numbers_->Multiply(handle, CountOf(0) / count_, shift, shift, 0, variance));
  for (size_t slice = 1; slice < slices_.counts.size(); ++slice) {
    UCUDNN_RETURN_IF_ERROR(numbers_->Sum(handle, 1, First(scratch, slice), -1, shift, deviation));
    UCUDNN_RETURN_IF_ERROR(
        numbers_->Multiply(handle, CountOf(slice) / count_, deviation, deviation, 1, variance));
  }
  for (size_t slice = 0; slice < slices_.counts.size(); ++slice) {
    if (slices_.counts[slice] == 1) continue;  // the unbiased variance of one element is 0 / 0
    UCUDNN_RETURN_IF_ERROR(
        numbers_->Add(handle, (CountOf(slice) - 1) / count_, Second(scratch, slice), 1, variance));
  }
  return numbers_->Sum(handle, 1, first, 1, shift, scratch + Place(kMean));
}

Status NormStatistics::WriteInverse(cudnnHandle_t handle, double epsilon, CUdeviceptr scratch,
                                    CUdeviceptr to) const {
  const CUdeviceptr zeros = scratch + Place(kZeros), ones = scratch + Place(kOnes);
  UCUDNN_RETURN_IF_ERROR(numbers_->Set(handle, 0, zeros));
  UCUDNN_RETURN_IF_ERROR(numbers_->Set(handle, 1, ones));
  return numbers_->InverseDeviation(handle, epsilon, scratch + Place(kVariance), zeros, ones, to);
}

Status NormStatistics::WriteRunning(const cudnn::NormTraining& call, CUdeviceptr scratch) const {
  const double unbiased = count_ > 1 ? count_ / (count_ - 1) : 1;
  if (call.running_mean != nullptr) {
    UCUDNN_RETURN_IF_ERROR(numbers_->Add(call.handle, call.factor, scratch + Place(kMean),
                                         1 - call.factor, ToDevice(call.running_mean)));
  }
  if (call.running_variance != nullptr) {
    UCUDNN_RETURN_IF_ERROR(numbers_->Add(call.handle, call.factor * unbiased,
                                         scratch + Place(kVariance), 1 - call.factor,
                                         ToDevice(call.running_variance)));
  }
  return Status::Ok();
}

Status NormStatistics::Finish(const cudnn::NormTraining& call, CUdeviceptr scratch) const {
  UCUDNN_RETURN_IF_ERROR(Combine(call.handle, scratch));
  const CUdeviceptr mean = scratch + Place(kMean);
  UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
      functions_,
      functions_.cudnnBatchNormalizationForwardInference(
          call.handle, CUDNN_BATCHNORM_SPATIAL, call.alpha, call.beta, call.x_layout, call.x,
          call.y_layout, call.y, call.parameters, call.scale, call.bias, ToPointer(mean),
          ToPointer(scratch + Place(kVariance)), call.epsilon),
      "normalising a slice"));
  UCUDNN_RETURN_IF_ERROR(WriteRunning(call, scratch));
  if (call.saved_mean == nullptr) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(numbers_->Add(call.handle, 1, mean, 0, ToDevice(call.saved_mean)));
  return WriteInverse(call.handle, call.epsilon, scratch, ToDevice(call.saved_inverse));
}

Status NormStatistics::FinishStatistics(const cudnn::NormGradient& call,
                                        CUdeviceptr scratch) const {
  UCUDNN_RETURN_IF_ERROR(Combine(call.handle, scratch));
  return WriteInverse(call.handle, call.epsilon, scratch, scratch + Place(kInverse));
}

CUdeviceptr NormStatistics::MeanOf(const cudnn::NormGradient& call, CUdeviceptr scratch) const {
  return call.saved_mean == nullptr ? scratch + Place(kMean) : ToDevice(call.saved_mean);
}

CUdeviceptr NormStatistics::InverseOf(const cudnn::NormGradient& call, CUdeviceptr scratch) const {
  return call.saved_inverse == nullptr ? scratch + Place(kInverse) : ToDevice(call.saved_inverse);
}

cudnnStatus_t NormStatistics::RunOwn(const cudnn::NormGradient& call, CUdeviceptr scratch) const {
  if (call.parameter_alpha == nullptr || call.parameter_beta == nullptr || call.dscale == nullptr ||
      call.dbias == nullptr || IsHalf(call.saved_mean, call.saved_inverse)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  cudnn::NormGradient own = call;
  own.parameter_alpha = OneOf(slices_.type);
  own.parameter_beta = ZeroOf(slices_.type);
  own.dscale = ToPointer(First(scratch, slices_.own));
  own.dbias = ToPointer(Second(scratch, slices_.own));
  own.saved_mean = ToPointer(MeanOf(call, scratch));
  own.saved_inverse = ToPointer(InverseOf(call, scratch));
  return cudnn::Normalize(functions_, own);
}

Status NormStatistics::WriteSums(const cudnn::NormGradient& call, CUdeviceptr scratch) const {
  const CUdeviceptr scale_sum = scratch + Place(kScaleSum), bias_sum = scratch + Place(kBiasSum);
  for (size_t slice = 0; slice < slices_.counts.size(); ++slice) {
    const double beta = slice == 0 ? 0 : 1;
    UCUDNN_RETURN_IF_ERROR(numbers_->Add(call.handle, 1, First(scratch, slice), beta, scale_sum));
    UCUDNN_RETURN_IF_ERROR(numbers_->Add(call.handle, 1, Second(scratch, slice), beta, bias_sum));
  }
  using Share = NormSlices::Share;
  const double alpha = slices_.share == Share::kNone
                           ? 0
                           : cudnn::ScaleOf(call.parameter_alpha, slices_.type),
               beta = cudnn::ScaleOf(call.parameter_beta, slices_.type);
  const bool is_own = slices_.share == Share::kOwn;
  const CUdeviceptr scale = is_own ? First(scratch, slices_.own) : scale_sum;
  const CUdeviceptr bias = is_own ? Second(scratch, slices_.own) : bias_sum;
  UCUDNN_RETURN_IF_ERROR(numbers_->Add(call.handle, alpha, scale, beta, ToDevice(call.dscale)));
  return numbers_->Add(call.handle, alpha, bias, beta, ToDevice(call.dbias));
}

Status NormStatistics::WriteChanges(const cudnn::NormGradient& call, CUdeviceptr scratch) const {
  const CUdeviceptr factor = scratch + Place(kFactor), scale_change = scratch + Place(kScaleChange),
                    bias_change = scratch + Place(kBiasChange), inverse = InverseOf(call, scratch);
  const double own = 1 / CountOf(slices_.own), all = -1 / count_;
  UCUDNN_RETURN_IF_ERROR(numbers_->Sum(call.handle, own, First(scratch, slices_.own), all,
                                       scratch + Place(kScaleSum), scale_change));
  UCUDNN_RETURN_IF_ERROR(numbers_->Sum(call.handle, own, Second(scratch, slices_.own), all,
                                       scratch + Place(kBiasSum), bias_change));
  UCUDNN_RETURN_IF_ERROR(
      numbers_->Multiply(call.handle, 1, ToDevice(call.scale), inverse, 0, factor));
  for (const auto& [change, times] :
       {std::pair{scale_change, inverse}, {scale_change, factor}, {bias_change, factor}}) {
    UCUDNN_RETURN_IF_ERROR(numbers_->Multiply(call.handle, 1, change, times, 0, change));
  }
  return Status::Ok();
}

Status NormStatistics::Finish(const cudnn::NormGradient& call, CUdeviceptr scratch) const {
  const CUdeviceptr ones = scratch + Place(kOnes);
  UCUDNN_RETURN_IF_ERROR(WriteSums(call, scratch));
  UCUDNN_RETURN_IF_ERROR(WriteChanges(call, scratch));
  UCUDNN_RETURN_IF_ERROR(numbers_->Set(call.handle, 1, ones));
  return cudnn::CudnnStatus(
      functions_,
      functions_.cudnnBatchNormalizationForwardInference(
          call.handle, CUDNN_BATCHNORM_SPATIAL, call.data_alpha, OneOf(slices_.type), call.x_layout,
          call.x, call.dx_layout, call.dx, call.parameters,
          ToPointer(scratch + Place(kScaleChange)), ToPointer(scratch + Place(kBiasChange)),
          ToPointer(MeanOf(call, scratch)), ToPointer(ones), 0),
      "correcting the gradient of a slice");
}

}  // namespace ucudnn::spatial
