// A pooling whose window covers the whole image: each rank pools its stripe, the ranks tell each
// other what came of it, and each pools that again, so that all of them have the same. An average
// is weighted by the extents of the stripes. The gradient of an average needs no exchange; that of
// a maximum goes to the first rank that has it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "spatial/slot_exchange.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

class GlobalPooling : public SplitKernel {
 public:
  // SplitKernel::Make calls this where `group.pooled` is set.
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
  // Each on the caller's stream.
  Status PoolStripe(const KernelCall& call, CUdeviceptr buffer) const;
  Status PoolGrid(const KernelCall& call, CUdeviceptr buffer) const;
  Status PoolGridBack(const KernelCall& call, CUdeviceptr buffer) const;
  Status AddArrivals(const KernelCall& call, ExchangeResources& device, CUdeviceptr to) const;
  Status TryAll(const KernelCall& call, ExchangeResources& device) const;
  // What the others told, and what follows from that.
  Status Finish(const KernelCall& call, ExchangeResources& device) const;
  Status FinishGradient(const KernelCall& call, ExchangeResources& device) const;

  const PooledRanks ranks_;
  const Layout layout_;
  cudnn::OwnedPooling stripe_, grid_;  // what comes of the stripe is packed, and so is the grid
  ConvolutionProblem grid_problem_;
  BoxCopy store_, fetch_;  // packed results to the caller's y, and the caller's y or dy to them
  std::vector<BoxCopy> assemble_;      // what came of each rank's stripe, into the grid
  std::vector<size_t> assembled_;      // and where: bytes into it
  BoxCopy own_;                        // this rank's part of the grid's gradient
  std::optional<SlotExchange> slots_;  // none: nothing is exchanged
  // The buffer: a slot for each rank, with what came of its stripe and whether that came; the grid;
  // what comes of it; of a gradient, that of the grid's result, of the grid and of this rank's
  // part.
  size_t arrival_ = 0, count_ = 0;
  size_t grid_place_ = 0, result_place_ = 0, dy_place_ = 0, gradient_place_ = 0, part_place_ = 0;
};

}  // namespace ucudnn::spatial
