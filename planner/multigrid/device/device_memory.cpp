#include "planner/multigrid/device/device_memory.h"

#include <algorithm>
#include <string>

namespace ucudnn::multigrid {

Result<DeviceNumbers> DeviceNumbers::Make(const DeviceTarget& target, int64_t count) {
  const cuda::ContextScope scope(*target.driver, target.context);
  CUdeviceptr address = 0;
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * target.precision->bytes;
  const CUresult result = target.driver->cuMemAlloc(&address, bytes);
  if (result != CUDA_SUCCESS) {
    return Status::Error("no device memory for " + std::to_string(bytes) +
                         " bytes more: a smaller mini-batch, C-points alone or more devices are "
                         "expected (" +
                         cuda::DriverStatus(*target.driver, result, "cuMemAlloc").message() + ")");
  }
  return DeviceNumbers(Numbers(reinterpret_cast<Address>(address), {target}), count);
}

void DeviceNumbers::Free::operator()(Address address) const {
  const cuda::ContextScope scope(*target.driver, target.context);
  target.driver->cuMemFree(reinterpret_cast<CUdeviceptr>(address));
}

void LaneNeeds::Include(const LaneNeeds& other) {
  room = std::max(room, other.room);
  workspace = std::max(workspace, other.workspace);
}

Result<std::unique_ptr<DeviceLane>> DeviceLane::Make(const DeviceTarget& target) {
  const cuda::ContextScope scope(*target.driver, target.context);
  std::unique_ptr<DeviceLane> lane(new DeviceLane(target));
  UCUDNN_RETURN_IF_ERROR(lane->stream_.Create());
  UCUDNN_RETURN_IF_ERROR(lane->reached_.CreateUntimed());
  UCUDNN_RETURN_IF_ERROR(UCUDNN_CUDNN(target, cudnnCreate, &lane->handle_));
  UCUDNN_RETURN_IF_ERROR(UCUDNN_CUDNN(target, cudnnSetStream, lane->handle_, lane->stream()));
  return lane;
}

DeviceLane::~DeviceLane() {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  if (stream_.get() != nullptr) target_.driver->cuStreamSynchronize(stream_.get());
  if (handle_ != nullptr) target_.functions->cudnnDestroy(handle_);
}

Status DeviceLane::Reserve(const LaneNeeds& needs) {
  UCUDNN_RETURN_IF_ERROR(Wait());
  if (needs.room > held_.room) {
    room_.reset();
    held_.room = 0;
    UCUDNN_ASSIGN_OR_RETURN(room_, DeviceNumbers::Make(target_, needs.room));
    held_.room = needs.room;
  }
  if (needs.workspace > held_.workspace) {
    workspace_.reset();
    held_.workspace = 0;
    const auto bytes = static_cast<size_t>(target_.precision->bytes);
    UCUDNN_ASSIGN_OR_RETURN(
        workspace_,
        DeviceNumbers::Make(target_, static_cast<int64_t>((needs.workspace + bytes - 1) / bytes)));
    held_.workspace = needs.workspace;
  }
  return Status::Ok();
}

Status DeviceLane::Record() {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  return reached_.Record(stream_.get());
}

Status DeviceLane::LetFollow(const DeviceLane& other) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  return reached_.HoldBack(other.stream());
}

Status DeviceLane::Wait() {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  return stream_.Synchronize();
}

Status DeviceLane::Copy(Address from, Address to, int64_t count) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  return UCUDNN_DRIVER(target_, cuMemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(to),
                       reinterpret_cast<CUdeviceptr>(from),
                       static_cast<size_t>(count) * target_.precision->bytes, stream_.get());
}

Status DeviceLane::Add(double a, const TensorNumbers& x, double b, const TensorNumbers& to) {
  const auto alpha = static_cast<float>(a);
  const auto beta = static_cast<float>(b);
  return UCUDNN_CUDNN(target_, cudnnAddTensor, handle_, &alpha, x.tensor, x.data, &beta, to.tensor,
                      to.data);
}

Status DeviceLane::Apply(cudnnOpTensorDescriptor_t operation, double a, const TensorNumbers& x,
                         double b, const TensorNumbers& y, const TensorNumbers& to) {
  const auto alpha = static_cast<float>(a);
  const auto beta = static_cast<float>(b);
  const float zero = 0;
  return UCUDNN_CUDNN(target_, cudnnOpTensor, handle_, operation, &alpha, x.tensor, x.data, &beta,
                      y.tensor, y.data, &zero, to.tensor, to.data);
}

Status DeviceLane::Upload(const double* from, Address to, int64_t count,
                          const Precision& precision) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  const size_t bytes = static_cast<size_t>(count) * precision.bytes;
  if (staging_.size() < bytes) staging_.resize(bytes);
  Narrow(precision, from, count, staging_.data());
  UCUDNN_RETURN_IF_ERROR(UCUDNN_DRIVER(target_, cuMemcpyHtoDAsync,
                                       reinterpret_cast<CUdeviceptr>(to), staging_.data(), bytes,
                                       stream_.get()));
  return stream_.Synchronize();
}

Status DeviceLane::Download(Address from, double* to, int64_t count, const Precision& precision) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  const size_t bytes = static_cast<size_t>(count) * precision.bytes;
  if (staging_.size() < bytes) staging_.resize(bytes);
  UCUDNN_RETURN_IF_ERROR(UCUDNN_DRIVER(target_, cuMemcpyDtoHAsync, staging_.data(),
                                       reinterpret_cast<CUdeviceptr>(from), bytes, stream_.get()));
  UCUDNN_RETURN_IF_ERROR(stream_.Synchronize());
  Widen(precision, staging_.data(), count, to);
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
