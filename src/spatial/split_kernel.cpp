#include "spatial/split_kernel.h"

#include "base/byte_size.h"
#include "spatial/global_pooling.h"
#include "spatial/halo_kernel.h"
#include "spatial/split_norm.h"

namespace ucudnn::spatial {
namespace {

class RefusedKernel : public SplitKernel {
 public:
  Status Try(const KernelCall&, ExchangeResources&) override { return Status::Error(refusal()); }
  KernelOutcome Run(const KernelCall&, ExchangeResources&, transport::Channel&) override {
    return {CUDNN_STATUS_NOT_SUPPORTED, Status::Ok()};
  }
};

bool IsSplitNorm(const CallProperties& form) {
  return form.work == SplitWork::kNorm && !form.is_replicated;
}

}  // namespace

ExchangeResources::ExchangeResources(const cuda::Driver& driver_table,
                                     const cudnn::Functions& function_table)
    : driver(driver_table),
      functions(function_table),
      stream(driver),
      pool(driver),
      buffer(pool, driver),
      entered(driver),
      summed(driver),
      read(driver),
      deferred(driver),
      counted(driver),
      exchanged{cuda::Event(driver), cuda::Event(driver)},
      add(functions) {}

ExchangeResources::~ExchangeResources() {
  if (handle != nullptr) functions.cudnnDestroy(handle);
}

Status ExchangeResources::CreateStreams(CUcontext current) {
  context = current;
  UCUDNN_RETURN_IF_ERROR(stream.CreateUrgent());
  for (cuda::Event* event :
       {&entered, &summed, &read, &deferred, &counted, exchanged.data(), exchanged.data() + 1}) {
    UCUDNN_RETURN_IF_ERROR(event->CreateUntimed());
  }
  return add.Create();
}

Status ExchangeResources::Create(CUcontext current) {
  UCUDNN_RETURN_IF_ERROR(CreateStreams(current));
  UCUDNN_RETURN_IF_ERROR(pool.Create(stream.get()));
  UCUDNN_RETURN_IF_ERROR(
      cudnn::CudnnStatus(functions, functions.cudnnCreate(&handle), "creating a handle"));
  return cudnn::CudnnStatus(
      functions, functions.cudnnSetStream(handle, reinterpret_cast<cudaStream_t>(stream.get())),
      "setting a handle's stream");
}

Status ExchangeResources::CreateForCapture(CUcontext current, size_t bytes) {
  UCUDNN_RETURN_IF_ERROR(CreateStreams(current));
  // The resources of a capture have no pool, so the allocation is not ordered on any stream.
  return buffer.Reserve(bytes);
}

// The first call in the capture waits for `read`, although nothing has read the buffer yet. The
// wait must be for an event within the capture, so `read` is recorded now.
Status ExchangeResources::EnterCapture(CUstream origin) { return read.Record(origin); }

Status ExchangeResources::Grow(size_t bytes) {
  if (bytes <= buffer.size()) return Status::Ok();
  // The stream of exchanges waits for the last reader of the buffer. So synchronising with that
  // stream waits for all work that uses the buffer.
  UCUDNN_RETURN_IF_ERROR(stream.Synchronize());
  Status grown = buffer.Grow(bytes);
  const Status waited = stream.Synchronize();
  return grown.ok() ? waited : grown;
}

std::unique_ptr<SplitKernel> SplitKernel::Refused(std::vector<Spatial> extents, std::string why) {
  auto kernel = std::make_unique<RefusedKernel>();
  kernel->set_extents(std::move(extents));
  kernel->refusal_ = std::move(why);
  return kernel;
}

Result<std::unique_ptr<SplitKernel>> SplitKernel::MakeFitting(const PlanContext& context,
                                                              const GroupStripes& group,
                                                              const CallProperties& form,
                                                              bool sums_gradients,
                                                              size_t most_bytes) {
  if (!group.pooled && !IsSplitNorm(form)) {
    return HaloKernel::MakeFitting(context, group, form, sums_gradients, most_bytes);
  }
  UCUDNN_ASSIGN_OR_RETURN(
      auto made, Make(context, group, form, sums_gradients, group.stripes.local.n, most_bytes));
  if (made->buffer_bytes() <= most_bytes) return made;
  return Status::Error(std::string("what ranks tell each other of a ") +
                       (group.pooled ? "global pooling" : "batch normalisation") + " takes " +
                       FormatByteSize(made->buffer_bytes()) + ", and the limit leaves " +
                       FormatByteSize(most_bytes));
}

Result<std::unique_ptr<SplitKernel>> SplitKernel::Make(const PlanContext& context,
                                                       const GroupStripes& group,
                                                       const CallProperties& form,
                                                       bool sums_gradients, int slice_images,
                                                       size_t most_bytes) {
  if (group.pooled) return GlobalPooling::Make(context, group, form);
  if (IsSplitNorm(form)) return SplitNorm::Make(context, group, form, sums_gradients);
  return HaloKernel::Make(context, group, form, sums_gradients, {slice_images, nullptr},
                          most_bytes);
}

Status SplitKernel::LeaveBehind(const KernelCall& call, ExchangeResources& device) {
  UCUDNN_RETURN_IF_ERROR(device.read.Record(call.stream));
  return device.read.HoldBack(device.stream.get());
}

}  // namespace ucudnn::spatial
