// A split kernel whose ranks exchange rows at the cuts, one slice of images after the other, while
// the rank's own call runs: convolutions, and poolings of windows. Gradients of filters are summed
// over ranks behind that.
#pragma once

#include <memory>

#include "convolution/partial_sums.h"
#include "cudnn/partial_sum.h"
#include "spatial/slice_plan.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

class HaloKernel : public SplitKernel {
 public:
  // As those of SplitKernel.
  static Result<std::unique_ptr<SplitKernel>> MakeFitting(const PlanContext& context,
                                                          const GroupStripes& group,
                                                          const CallForm& form, bool sums_gradients,
                                                          size_t most_bytes);
  // Images that are exchanged at once, and their plan where the caller has made it.
  struct Slice {
    int images = 1;
    std::unique_ptr<SlicePlan> plan;
  };
  static Result<std::unique_ptr<SplitKernel>> Make(const PlanContext& context,
                                                   const GroupStripes& group, const CallForm& form,
                                                   bool sums_gradients, Slice slice,
                                                   size_t most_bytes);

  int slice_images() const override { return slice_; }
  size_t largest_message_bytes() const override;
  size_t reduced_bytes() const override;
  bool exchanges_gradient_at_once() const override {
    return problem_.operation != Operation::kForward && form_.work != SplitWork::kPooling &&
           full_ != nullptr && slice_ == problem_.n;
  }
  size_t received_end() const override { return full_ == nullptr ? 0 : full_->received_end(); }
  Status Try(const KernelCall& call, ExchangeResources& device) override;
  KernelOutcome Run(const KernelCall& call, ExchangeResources& device,
                    transport::Channel& channel) override;

 private:
  using SplitKernel::SplitKernel;
  Status MakePlans(const PlanContext& context, const GroupStripes& group);
  bool is_gradient() const { return problem_.operation == Operation::kBackwardFilter; }
  // The rank's own call where gradients are summed: into memory of ours where the caller's is read.
  cudnn::ConvolutionCall OwnCall(const cudnn::ConvolutionCall& call, CUdeviceptr buffer) const;
  // The slice that begins at image `image`, of which `sliced` has the pointers.
  SliceCall SliceAt(int64_t image, const KernelCall& call, const cudnn::ConvolutionCall& sliced,
                    ExchangeResources& device) const;
  // Of the slice that begins at image `image`.
  size_t RoomOf(int64_t image) const { return static_cast<size_t>(image / slice_) % rooms_; }
  SlicePlan& PlanAt(int64_t image) { return problem_.n - image >= slice_ ? *full_ : *rest_; }
  Status KeepAll(const KernelCall& call, const cudnn::ConvolutionCall& own,
                 ExchangeResources& device);
  // The rank's own call, and what its gradient needs behind it.
  KernelOutcome RunOwn(const KernelCall& call, const cudnn::ConvolutionCall& own,
                       ExchangeResources& device);
  // Exchanges and corrects all slices; the first one's exchange is under way.
  Status CorrectAll(const KernelCall& call, const cudnn::ConvolutionCall& own,
                    ExchangeResources& device, transport::Channel& channel);
  Status ExchangeAt(int64_t image, const KernelCall& call, const cudnn::ConvolutionCall& own,
                    ExchangeResources& device, transport::Channel& channel);
  // Sums the rank's gradients over all ranks, and makes the caller's result of the sum.
  Status FinishGradient(const KernelCall& call, ExchangeResources& device,
                        transport::Channel& channel);
  bool IsDeferred(const KernelCall& call) const { return call.is_deferred && sums_; }
  // The next call, on whichever stream, may overwrite the buffer only behind this one.
  Status Leave(const KernelCall& call, ExchangeResources& device) const;

  int slice_ = 0;
  std::unique_ptr<SlicePlan> full_, rest_;  // of slice_ images, and of what is left over
  // Of the buffer, each for one slice, and their size: with two, the next slice's rows travel while
  // results are corrected with this one's.
  size_t rooms_ = 1, room_bytes_ = 0;
  bool sums_ = false;                       // gradients are summed over ranks
  bool counts_ = true;                      // this rank's among them
  std::unique_ptr<cudnn::PartialSum> sum_;  // of 16-bit gradients
  // Of the buffer: behind what slices use, what they keep, then the gradient, where it is made.
  size_t kept_place_ = 0, gradient_place_ = 0, gradient_bytes_ = 0;
};

}  // namespace ucudnn::spatial
