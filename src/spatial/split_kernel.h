// One split kernel of one rank, as all ranks agreed on it: why it is refused, or everything that
// its calls need. Made at the agreement; running it allocates nothing. Not thread-safe: a rank
// makes one call at a time. A kind of kernel is a class of its own (halo_kernel.h,
// global_pooling.h, split_norm.h).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cuda/resources.h"
#include "spatial/agreement.h"
#include "spatial/call_record.h"
#include "spatial/exchange_times.h"
#include "spatial/kernel_log.h"
#include "spatial/slice_plan.h"
#include "spatial/tensor_add.h"
#include "transport/channel.h"

namespace ucudnn::spatial {

// What all kernels of a rank share on its device. Its context is current wherever it is used.
struct ExchangeResources {
  ExchangeResources(const cuda::Driver& driver, const cudnn::Functions& functions);
  ~ExchangeResources();
  ExchangeResources(const ExchangeResources&) = delete;
  ExchangeResources& operator=(const ExchangeResources&) = delete;
  Status Create(CUcontext context);
  // For calls that one capture records: a graph knows no order with anything outside, so all but
  // the channel is its own. There is no handle, and the buffer has `bytes` from the beginning.
  Status CreateForCapture(CUcontext context, size_t bytes);
  // Before the first call of each capture, which `origin` is in.
  Status EnterCapture(CUstream origin);
  // Makes the buffer at least that large; waits for what uses it. Where there is no memory for
  // that, it stays as it was, or is gone: then no kernel can run any more.
  Status Grow(size_t bytes);

  const cuda::Driver& driver;
  const cudnn::Functions& functions;
  CUcontext context = nullptr;
  cuda::Stream stream;  // of exchanges and reductions, in the order of the rank's calls
  cuda::MemoryPool pool;
  cuda::DeviceBuffer buffer;
  // Behind what the caller's stream had when a call came in; behind a sum of gradients; behind the
  // last reader of the buffer; behind the last sum that no stream waited for.
  cuda::Event entered, summed, read, deferred;
  cuda::Event counted;                   // behind what counts the call's beginning (device_log.h)
  std::array<cuda::Event, 2> exchanged;  // behind the last exchange into each room of the buffer
  cudnnHandle_t handle = nullptr;        // of ours, on the stream of exchanges
  TensorAdd add;

 private:
  Status CreateStreams(CUcontext context);
};

// The rank's own call, as the program would have made it: planned in micro-batches like any other.
class LocalCall {
 public:
  virtual ~LocalCall() = default;
  virtual cudnnStatus_t Run(const cudnn::ConvolutionCall& call) = 0;
  // The same at the agreement, without what a second call would do twice.
  virtual cudnnStatus_t Try(const cudnn::ConvolutionCall& call) { return Run(call); }
};

// One call, on the stream of its handle.
struct KernelCall {
  const cudnn::ConvolutionCall& call;
  CUstream stream = nullptr;
  LocalCall& local;
  bool has_rows = false;     // the call before received them, and they are still in the buffer
  bool is_deferred = false;  // `stream` does not wait for the sum of gradients
  ExchangeTimes* times = nullptr;  // null: the call is not timed
};

// What became of a call.
struct KernelOutcome {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;  // of the rank's own call, or of the correction
  // Why the ranks' results are no longer those of the whole convolution; ok where they are.
  Status exact;
};

// A capture shares the kernels that it recorded, as long as a graph may launch them.
class SplitKernel : public std::enable_shared_from_this<SplitKernel> {
 public:
  virtual ~SplitKernel() = default;
  // A kernel that is an error on all ranks.
  static std::unique_ptr<SplitKernel> Refused(std::vector<Spatial> extents, std::string why);
  // The kernel of the kind that the form and the group ask for, whose exchanges have as many images
  // as fit: all that a call needs (the buffer, and what the channel needs to sum gradients) is at
  // most `most_bytes`. An error is that not even one image's fits, or that a part of the kernel
  // cannot be made; the ranks then agree to refuse it.
  static Result<std::unique_ptr<SplitKernel>> MakeFitting(const PlanContext& context,
                                                          const GroupStripes& group,
                                                          const CallForm& form, bool sums_gradients,
                                                          size_t most_bytes);
  // The same kernel with as many images in each exchange as the ranks agreed on: the fewest of all.
  static Result<std::unique_ptr<SplitKernel>> Make(const PlanContext& context,
                                                   const GroupStripes& group, const CallForm& form,
                                                   bool sums_gradients, int slice_images,
                                                   size_t most_bytes);

  const ConvolutionProblem& problem() const { return problem_; }  // the rank's own
  const std::string& refusal() const { return refusal_; }         // empty: it runs
  const CallForm& form() const { return form_; }
  const std::vector<Spatial>& extents() const { return *extents_; }
  const AllExtents& shared_extents() const { return extents_; }
  void set_extents(AllExtents extents) { extents_ = std::move(extents); }
  void set_extents(std::vector<Spatial> extents) {
    extents_ = std::make_shared<const std::vector<Spatial>>(std::move(extents));
  }
  // Of each rank, by what was agreed.
  const std::vector<OwnWindow>& windows() const { return windows_; }
  void set_windows(std::vector<OwnWindow> windows) { windows_ = std::move(windows); }
  uint64_t common_hash() const { return common_hash_; }
  void set_common_hash(uint64_t hash) { common_hash_ = hash; }
  // In the log of kernels.
  int log_number() const { return log_number_; }
  void set_log_number(int number) { log_number_ = number; }
  size_t buffer_bytes() const { return buffer_bytes_; }
  // And those of the channel.
  size_t device_bytes() const {
    return buffer_bytes_ + transport::ReductionScratchBytes(reduced_bytes());
  }
  // That this rank receives and sends in one call.
  uint64_t exchanged_bytes() const { return sent_bytes_ + received_bytes_; }
  uint64_t sent_bytes() const { return sent_bytes_; }
  uint64_t received_bytes() const { return received_bytes_; }
  // Whether a call waits for other ranks.
  bool needs_others() const { return exchanged_bytes() > 0 || reduced_bytes() > 0; }

  virtual int slice_images() const { return problem_.n; }  // of one exchange
  virtual size_t largest_message_bytes() const { return 0; }
  virtual size_t reduced_bytes() const { return 0; }
  // Whether all rows of dy that a call receives, if any, are in the buffer when it ends: the same
  // on all ranks.
  virtual bool exchanges_gradient_at_once() const { return false; }
  // What lies in the buffer as it came from other ranks is in its first bytes.
  virtual size_t received_end() const { return 0; }

  // Makes those of its calls beside the rank's own once that leave the program's memory alone; an
  // error is that the library refuses one.
  virtual Status Try(const KernelCall& call, ExchangeResources& device) = 0;
  virtual KernelOutcome Run(const KernelCall& call, ExchangeResources& device,
                            transport::Channel& channel) = 0;

 protected:
  SplitKernel() = default;
  SplitKernel(const PlanContext& context, const GroupStripes& group, const CallForm& form)
      : functions_(&context.functions),
        driver_(&context.driver),
        problem_(group.stripes.local),
        form_(form) {}
  // The next call, on whichever stream, may overwrite the buffer only behind this one.
  static Status LeaveBehind(const KernelCall& call, ExchangeResources& device);

  const cudnn::Functions* functions_ = nullptr;
  const cuda::Driver* driver_ = nullptr;
  ConvolutionProblem problem_;
  CallForm form_;
  uint64_t sent_bytes_ = 0, received_bytes_ = 0;
  size_t buffer_bytes_ = 0;

 private:
  std::string refusal_;
  AllExtents extents_;  // null before they are set
  std::vector<OwnWindow> windows_;
  uint64_t common_hash_ = 0;
  int log_number_ = KernelLog::kUnlisted;
};

}  // namespace ucudnn::spatial
