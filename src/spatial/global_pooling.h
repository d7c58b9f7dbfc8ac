// A pooling whose window covers the whole image. Each rank pools its stripe, the ranks exchange the
// results as a grid, and each rank pools this grid, so that all have the same result. An average is
// weighted by the extents of the stripes. The gradient of an average needs no exchange; the
// gradient of a maximum goes to the first rank that has the maximum.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "spatial/slot_exchange.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

class GlobalPooling : public SplitKernel {
 public:
  // SplitKernel::Make calls this if `group.pooled` is set.
  static Result<std::unique_ptr<SplitKernel>> Make(const PlanContext& context,
                                                   const GroupStripes& group, const CallForm& form);

  size_t largest_message_bytes() const override { return slots_ ? slots_->message_bytes() : 0; }
  Status Try(const KernelCall& call, ExchangeResources& device) override;
  KernelOutcome Run(const KernelCall& call, ExchangeResources& device,
                    transport::Channel& channel) override;

 private:
  GlobalPooling(const PlanContext& context, const GroupStripes& group, const CallForm& form);
  Status PlanGrid();
  void PlanPlaces();
  bool is_forward() const { return problem_.operation == Operation::kForward; }
  bool exchanges() const { return is_forward() || form_.pooling.is_maximum(); }
  CUdeviceptr PartialOf(size_t rank, CUdeviceptr buffer) const {
    return buffer + slots_->slot_place(rank);
  }
  // The following functions enqueue on the caller's stream.
  Status PoolStripe(const KernelCall& call, CUdeviceptr buffer) const;
  Status PoolGrid(const KernelCall& call, CUdeviceptr buffer) const;
  Status PoolGridBack(const KernelCall& call, CUdeviceptr buffer) const;
  Status AddArrivals(const KernelCall& call, ExchangeResources& device, CUdeviceptr to) const;
  Status TryAll(const KernelCall& call, ExchangeResources& device) const;
  // The steps behind the exchange of stripes' results.
  Status Finish(const KernelCall& call, ExchangeResources& device) const;
  Status FinishGradient(const KernelCall& call, ExchangeResources& device) const;

  const PooledRanks ranks_;
  const Layout layout_;
  // Poolings of the stripe and of the grid; their results are packed.
  cudnn::OwnedPooling stripe_, grid_;
  ConvolutionProblem grid_problem_;
  // From packed results to the caller's y, and from the caller's y or dy to packed ones.
  BoxCopy store_, fetch_;
  std::vector<BoxCopy> assemble_;      // from each rank's result to the grid
  std::vector<size_t> assembled_;      // places of the copies: bytes into the grid
  BoxCopy own_;                        // this rank's part of the grid's gradient
  std::optional<SlotExchange> slots_;  // none: nothing is exchanged
  // The buffer consists of a slot for each rank, with its stripe's result and its arrival number;
  // the grid; the grid's result; for a gradient, the gradients of the grid's result, of the grid,
  // and of this rank's part.
  size_t arrival_ = 0, count_ = 0;
  size_t grid_place_ = 0, result_place_ = 0, dy_place_ = 0, gradient_place_ = 0, part_place_ = 0;
};

}  // namespace ucudnn::spatial
