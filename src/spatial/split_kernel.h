// One split kernel of one rank, on which all ranks have agreed: either the reason of its refusal,
// or everything that its calls need. A kernel is made at the agreement. For each further layout of
// its tensors, this rank alone makes another version. Running a kernel outside captures allocates
// nothing. Not thread-safe: a rank makes one call at a time. Each kind of kernel is a class
// (halo_kernel.h, global_pooling.h, split_norm.h).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cuda/resources.h"
#include "spatial/agreement.h"
#include "spatial/call_record.h"
#include "spatial/device_numbers.h"
#include "spatial/kernel_log.h"
#include "spatial/slice_plan.h"
#include "transport/channel.h"

namespace ucudnn::spatial {

// The device resources that all kernels of a rank share. REQUIRES: the device's context is current.
struct ExchangeResources {
  ExchangeResources(const cuda::Driver& driver, const cudnn::Functions& functions);
  ~ExchangeResources();
  ExchangeResources(const ExchangeResources&) = delete;
  ExchangeResources& operator=(const ExchangeResources&) = delete;
  Status Create(CUcontext context);
  // Makes resources for the calls of one capture. A graph is not ordered with work outside of it,
  // so a capture has its own stream, events and buffer; only the channel is shared. These resources
  // have no handle, and their buffer of `bytes` bytes never grows.
  Status CreateForCapture(CUcontext context, size_t bytes);
  // To be called before the first call of each capture. `origin` is a stream in the capture.
  Status EnterCapture(CUstream origin);
  // Makes the buffer at least `bytes` large, after waiting for the work that uses it. Fails if
  // there is not enough memory. The buffer then keeps its size or, in the worst case, is empty, and
  // no kernel can run any more.
  Status Grow(size_t bytes);

  const cuda::Driver& driver;
  const cudnn::Functions& functions;
  CUcontext context = nullptr;
  cuda::Stream stream;  // of exchanges and sums, in the order of the rank's calls
  cuda::MemoryPool pool;
  cuda::DeviceBuffer buffer;
  // `entered` is recorded behind the work that was on the caller's stream before a call, `summed`
  // behind a sum of gradients, `read` behind the last reader of the buffer, and `deferred` behind
  // the last sum for which no stream waited.
  cuda::Event entered, summed, read, deferred;
  // Recorded behind the host function that logs a call's beginning (device_log.h).
  cuda::Event counted;
  // Recorded behind the last exchange into each room of the buffer (HaloKernel::rooms_).
  std::array<cuda::Event, 2> exchanged;
  cudnnHandle_t handle = nullptr;  // owned; on the stream of exchanges
  TensorAdd add;

 private:
  Status CreateStreams(CUcontext context);
};

// The rank's own call. It runs as it would without splitting: in micro-batches, like any other
// call.
class LocalCall {
 public:
  virtual ~LocalCall() = default;
  virtual cudnnStatus_t Run(const cudnn::ConvolutionCall& call) = 0;
  // Is called instead of Run while ranks agree on a kernel; Run follows in the same call. So Try
  // must have no effect that may occur only once.
  virtual cudnnStatus_t Try(const cudnn::ConvolutionCall& call) { return Run(call); }
};

// One call, on the stream of its handle.
struct KernelCall {
  const cudnn::ConvolutionCall& call;
  CUstream stream = nullptr;
  LocalCall& local;
  bool has_rows = false;           // rows that the previous call received are in the buffer
  bool is_deferred = false;        // `stream` does not wait for the sum of gradients
  ExchangeTimes* times = nullptr;  // null: the call is not timed
};

// The status of the library's calls, and whether the ranks together computed the correct result.
struct KernelOutcome {
  // Status of the rank's own call, or of the correction.
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  // Ok if the ranks' results are parts of the undivided convolution's result. Otherwise the reason
  // why they are not.
  Status exact;
};

// A capture shares ownership of the kernels that it has captured, as long as a graph may launch
// them.
class SplitKernel : public std::enable_shared_from_this<SplitKernel> {
 public:
  virtual ~SplitKernel() = default;
  // Returns a kernel that is refused: its calls are an error on all ranks.
  static std::unique_ptr<SplitKernel> Refused(std::vector<Spatial> extents, std::string why);
  // Makes the kernel for the form and the group. Each exchange has as many images as fit: all
  // memory that a call needs (the buffer, and the channel's memory for summing gradients) is at
  // most `most_bytes`. Fails if not even one image fits, or if a part of the kernel cannot be made;
  // the ranks then agree to refuse the kernel.
  static Result<std::unique_ptr<SplitKernel>> MakeFitting(const PlanContext& context,
                                                          const GroupStripes& group,
                                                          const CallProperties& form,
                                                          bool sums_gradients, size_t most_bytes);
  // Makes the same kernel with `slice_images` images in each exchange. The ranks have agreed on
  // this number: the smallest that MakeFitting chose on any rank.
  static Result<std::unique_ptr<SplitKernel>> Make(const PlanContext& context,
                                                   const GroupStripes& group,
                                                   const CallProperties& form, bool sums_gradients,
                                                   int slice_images, size_t most_bytes);

  const ConvolutionProblem& problem() const { return problem_; }  // of this rank's stripe
  const std::string& refusal() const { return refusal_; }         // empty: the kernel runs
  const CallProperties& form() const { return form_; }
  const std::vector<Spatial>& extents() const { return *extents_; }
  const AllExtents& shared_extents() const { return extents_; }
  void set_extents(AllExtents extents) { extents_ = std::move(extents); }
  void set_extents(std::vector<Spatial> extents) {
    extents_ = std::make_shared<const std::vector<Spatial>>(std::move(extents));
  }
  // Returns the windows of all ranks, as agreed.
  const std::vector<OwnWindow>& windows() const { return windows_; }
  void set_windows(std::vector<OwnWindow> windows) { windows_ = std::move(windows); }
  uint64_t common_hash() const { return common_hash_; }
  void set_common_hash(uint64_t hash) { common_hash_ = hash; }
  // The kernel's number in KernelLog.
  int log_number() const { return log_number_; }
  void set_log_number(int number) { log_number_ = number; }
  size_t buffer_bytes() const { return buffer_bytes_; }
  // Returns the bytes of the buffer and of the channel's scratch memory.
  size_t device_bytes() const {
    return buffer_bytes_ + transport::ReductionScratchBytes(reduced_bytes());
  }
  // Returns the bytes that this rank receives and sends in one call.
  uint64_t exchanged_bytes() const { return sent_bytes_ + received_bytes_; }
  uint64_t sent_bytes() const { return sent_bytes_; }
  uint64_t received_bytes() const { return received_bytes_; }
  // Returns whether a call waits for other ranks.
  bool needs_others() const { return exchanged_bytes() > 0 || reduced_bytes() > 0; }

  virtual int slice_images() const { return problem_.n; }  // images in one exchange
  virtual size_t largest_message_bytes() const { return 0; }
  virtual size_t reduced_bytes() const { return 0; }
  // Returns whether the buffer has all received rows of dy when a call ends. The answer is the same
  // on all ranks.
  virtual bool exchanges_gradient_at_once() const { return false; }
  // Returns how many of the buffer's first bytes are received from other ranks.
  virtual size_t received_end() const { return 0; }

  // Runs each library call of the kernel once, except the rank's own call and calls that change the
  // program's memory. Fails if the library refuses one of these calls.
  virtual Status Try(const KernelCall& call, ExchangeResources& device) = 0;
  virtual KernelOutcome Run(const KernelCall& call, ExchangeResources& device,
                            transport::Channel& channel) = 0;

 protected:
  SplitKernel() = default;
  SplitKernel(const PlanContext& context, const GroupStripes& group, const CallProperties& form)
      : functions_(&context.functions),
        driver_(&context.driver),
        problem_(group.stripes.local),
        form_(form) {}
  // Makes the next call, on any stream, wait for this call, so that the next call does not
  // overwrite the buffer too early.
  static Status LeaveBehind(const KernelCall& call, ExchangeResources& device);

  const cudnn::Functions* functions_ = nullptr;
  const cuda::Driver* driver_ = nullptr;
  ConvolutionProblem problem_;
  CallProperties form_;
  uint64_t sent_bytes_ = 0, received_bytes_ = 0;
  size_t buffer_bytes_ = 0;

 private:
  std::string refusal_;
  AllExtents extents_;  // null before set_extents
  std::vector<OwnWindow> windows_;
  uint64_t common_hash_ = 0;
  int log_number_ = KernelLog::kUnlisted;
};

}  // namespace ucudnn::spatial
