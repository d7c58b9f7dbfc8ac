#include "spatial/rank_device.h"

#include <utility>

#include "spatial/device_numbers.h"

namespace ucudnn::spatial {
namespace {

CUcontext CurrentContext(const cuda::Driver& driver) {
  CUcontext current = nullptr;
  return driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS ? current : nullptr;
}

// Puts the rank's handle on another stream, such as the stream of a capture, while this object
// exists.
class HandleOnStream {
 public:
  HandleOnStream(ExchangeResources& device, CUstream stream)
      : device_(device), is_moved_(stream != device.stream.get()) {
    if (is_moved_) Move(stream);
  }
  ~HandleOnStream() {
    if (is_moved_) Move(device_.stream.get());
  }
  HandleOnStream(const HandleOnStream&) = delete;
  HandleOnStream& operator=(const HandleOnStream&) = delete;

 private:
  void Move(CUstream stream) {
    device_.functions.cudnnSetStream(device_.handle, reinterpret_cast<cudaStream_t>(stream));
  }

  ExchangeResources& device_;
  const bool is_moved_;
};

}  // namespace

RankDevice::RankDevice(const cudnn::Functions& functions, const cuda::Driver& driver,
                       transport::Ranks& ranks, RankFailure& failure, OpenChannel open)
    : functions_(functions),
      driver_(driver),
      ranks_(ranks),
      failure_(failure),
      open_(std::move(open)) {}

bool RankDevice::IsAnother() const {
  return resources_ && resources_->context != nullptr &&
         CurrentContext(driver_) != resources_->context;
}

Status RankDevice::Prepare() {
  if (resources_) return Status::Ok();
  if (const char* const missing = driver_.MissingForExchange()) {
    return Status::Error(std::string("the CUDA driver lacks ") + missing);
  }
  resources_.emplace(driver_, functions_);
  Status created = resources_->Create(CurrentContext(driver_));
  if (!created.ok()) resources_.reset();
  return created;
}

Status RankDevice::Open(std::chrono::milliseconds timeout) {
  if (channel_ != nullptr) return Status::Ok();
  transport::ChannelSetup setup;
  setup.driver = &driver_;
  setup.context = resources_->context;
  setup.rank = ranks_.membership().group_rank;
  setup.size = ranks_.membership().group_size;
  setup.gatherer = &ranks_;
  setup.timeout = timeout;
  setup.given_up = [this] { return failure_.has_failed(); };
  setup.add = [device = &*resources_](CUdeviceptr to, CUdeviceptr from, size_t count,
                                      transport::Element element, CUstream stream) {
    const DataType type =
        element == transport::Element::kFloat64 ? DataType::kDouble : DataType::kFloat;
    const HandleOnStream on(*device, stream);
    return device->add.Run(device->handle, type, from, count, OneOf(type), to);
  };
  UCUDNN_ASSIGN_OR_RETURN(channel_, open_(setup));
  failure_.Publish(*channel_);
  return Status::Ok();
}

Status RankDevice::CopyNow(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  if (bytes == 0) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      driver_, driver_.cuMemcpyDtoDAsync(to, from, bytes, resources_->stream.get()),
      "keeping received rows"));
  return resources_->stream.Synchronize();
}

Status RankDevice::GrowAndTry(SplitKernel& made, const KernelCall& call, size_t kept_bytes) {
  cuda::DeviceBuffer kept(resources_->pool, driver_);
  UCUDNN_RETURN_IF_ERROR(kept.Reserve(kept_bytes));
  UCUDNN_RETURN_IF_ERROR(CopyNow(kept.address(), resources_->buffer.address(), kept_bytes));
  UCUDNN_RETURN_IF_ERROR(resources_->Grow(made.buffer_bytes()));
  UCUDNN_RETURN_IF_ERROR(made.Try(call, *resources_));
  return CopyNow(resources_->buffer.address(), kept.address(), kept_bytes);
}

Result<ExchangeResources*> RankDevice::TakeForCapture(const cuda::Capture& capture, CUstream origin,
                                                      SplitKernel& kernel, size_t most_bytes) {
  CaptureMemory::Need need{kernel.shared_from_this(), kernel.buffer_bytes(), most_bytes};
  need.other_bytes =
      owned_bytes_ - captures_.bytes() + transport::ReductionScratchBytes(kernel.reduced_bytes());
  Result<ExchangeResources*> taken = captures_.Take(capture, origin, need, *resources_);
  CountOwned();
  return taken;
}

void RankDevice::CountOwned() {
  owned_bytes_ = resources_->buffer.size() + channel_->device_bytes() + captures_.bytes();
}

}  // namespace ucudnn::spatial
