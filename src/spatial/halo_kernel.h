// A split convolution, or a split pooling with windows smaller than the image. The ranks exchange
// rows at the cuts, one slice of images after the other; the first slices are exchanged while the
// rank's own call runs. Gradients of filters are then summed over ranks, unless the program sums
// them. A call that is declared replicated exchanges and sums nothing.
#pragma once

#include <memory>

#include "convolution/partial_sums.h"
#include "cudnn/partial_sum.h"
#include "spatial/slice_plan.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

class HaloKernel : public SplitKernel {
 public:
  // Implements SplitKernel::MakeFitting for this kind of kernel.
  static Result<std::unique_ptr<SplitKernel>> MakeFitting(const PlanContext& context,
                                                          const GroupStripes& group,
                                                          const CallProperties& form,
                                                          bool sums_gradients, size_t most_bytes);
  // The number of images in one exchange, and the plan for a slice of so many images. `plan` is
  // null if it is not made yet.
  struct Slice {
    int images = 1;
    std::unique_ptr<SlicePlan> plan;
  };
  static Result<std::unique_ptr<SplitKernel>> Make(const PlanContext& context,
                                                   const GroupStripes& group,
                                                   const CallProperties& form, bool sums_gradients,
                                                   Slice slice, size_t most_bytes);

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
  // Returns the rank's own call. A gradient that must not be computed in the caller's memory is
  // computed in the buffer, with beta = 0.
  cudnn::ConvolutionCall OwnCall(const cudnn::ConvolutionCall& call, CUdeviceptr buffer) const;
  // Returns the arguments of the slice that begins at image `image`. The pointers of `sliced` point
  // to that image.
  SliceCall SliceAt(int64_t image, const KernelCall& call, const cudnn::ConvolutionCall& sliced,
                    ExchangeResources& device) const;
  // RoomOf returns the index of the room (see rooms_) for the slice that begins at `image`. PlanAt
  // returns that slice's plan.
  size_t RoomOf(int64_t image) const { return static_cast<size_t>(image / slice_) % rooms_; }
  SlicePlan& PlanAt(int64_t image) { return problem_.n - image >= slice_ ? *full_ : *rest_; }
  Status KeepAll(const KernelCall& call, const cudnn::ConvolutionCall& own,
                 ExchangeResources& device);
  // Runs the rank's own call. Then adds a 16-bit gradient to the sum.
  KernelOutcome RunOwn(const KernelCall& call, const cudnn::ConvolutionCall& own,
                       ExchangeResources& device);
  // Corrects all slices. Exchanges the rows of slices whose exchange is not enqueued yet.
  Status CorrectAll(const KernelCall& call, const cudnn::ConvolutionCall& own,
                    ExchangeResources& device, transport::Channel& channel);
  Status ExchangeAt(int64_t image, const KernelCall& call, const cudnn::ConvolutionCall& own,
                    ExchangeResources& device, transport::Channel& channel);
  // Sums the rank's gradients over all ranks, and computes the caller's result from the sum.
  Status FinishGradient(const KernelCall& call, ExchangeResources& device,
                        transport::Channel& channel);
  bool IsDeferred(const KernelCall& call) const { return call.is_deferred && sums_; }
  // Ensures that the next call, on any stream, does not overwrite the buffer while this call uses
  // it.
  Status Leave(const KernelCall& call, ExchangeResources& device) const;

  int slice_ = 0;
  std::unique_ptr<SlicePlan> full_, rest_;  // for slice_ images, and for the remaining images
  // A room is a part of the buffer that holds one slice. `rooms_` is the number of rooms, and
  // `room_bytes_` is the size of one room. With two rooms, the rows of the next slice are exchanged
  // while the present slice's results are corrected.
  size_t rooms_ = 1, room_bytes_ = 0;
  bool sums_ = false;                       // gradients are summed over ranks
  bool contributes_ = true;                 // this rank's gradient counts in a sum over ranks
  std::unique_ptr<cudnn::PartialSum> sum_;  // set for 16-bit gradients
  // Places in the buffer, behind the rooms: first the kept results, then the gradient if it is
  // computed in the buffer.
  size_t kept_place_ = 0, gradient_place_ = 0, gradient_bytes_ = 0;
};

}  // namespace ucudnn::spatial
