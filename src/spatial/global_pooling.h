// A pooling whose window covers the whole image. Each rank pools its stripe, the ranks exchange the
// results, and each rank pools the grid of all results. So all ranks get the same result. Averages
// are weighted by the extents of the stripes. The gradient of an average needs no exchange. The
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
  // REQUIRES: `group.pooled` is set.
  static Result<std::unique_ptr<SplitKernel>> Make(const PlanContext& context,
                                                   const GroupStripes& group,
                                                   const CallProperties& form);

  size_t largest_message_bytes() const override { return slots_ ? slots_->message_bytes() : 0; }
  Status Try(const KernelCall& call, ExchangeResources& device) override;
  KernelOutcome Run(const KernelCall& call, ExchangeResources& device,
                    transport::Channel& channel) override;

 private:
  GlobalPooling(const PlanContext& context, const GroupStripes& group, const CallProperties& form);
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
  // Finish and FinishGradient compute the caller's result after the exchange of the stripes'
  // results.
  Status Finish(const KernelCall& call, ExchangeResources& device) const;
  Status FinishGradient(const KernelCall& call, ExchangeResources& device) const;

  const PooledRanks ranks_;
  const Layout layout_;
  // The poolings of the stripe and of the grid. Their results are packed.
  cudnn::OwnedPooling stripe_, grid_;
  ConvolutionProblem grid_problem_;
  // `store_` copies packed results to the caller's y; `fetch_` copies the caller's y or dy to
  // packed form.
  BoxCopy store_, fetch_;
  std::vector<BoxCopy> assemble_;      // copies of each rank's result into the grid
  std::vector<size_t> assembled_;      // offsets in bytes of these copies within the grid
  BoxCopy own_;                        // copies this rank's part of the grid's gradient
  std::optional<SlotExchange> slots_;  // none: nothing is exchanged
  // The buffer holds, in this order: a slot for each rank, with its stripe's result and its arrival
  // number; the grid; the grid's result; and, for a gradient, the gradient of the grid's result,
  // the gradient of the grid, and the gradient of this rank's part.
  size_t arrival_ = 0, count_ = 0;
  size_t grid_place_ = 0, result_place_ = 0, dy_place_ = 0, gradient_place_ = 0, part_place_ = 0;
};

}  // namespace ucudnn::spatial
