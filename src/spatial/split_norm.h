// Batch normalisation in training, forward and backward, of an image that is cut into stripes.
// Ranks exchange their statistics, or the sums of their gradients. Then each rank computes its part
// of the result for the whole image (norm_statistics.h).
#pragma once

#include <memory>
#include <optional>

#include "spatial/norm_statistics.h"
#include "spatial/slot_exchange.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {

class SplitNorm : public SplitKernel {
 public:
  // Called by SplitKernel::Make for batch normalisations that are not replicated.
  static Result<std::unique_ptr<SplitKernel>> Make(const PlanContext& context,
                                                   const GroupStripes& group,
                                                   const CallProperties& form, bool sums_gradients);

  size_t largest_message_bytes() const override { return slots_ ? slots_->message_bytes() : 0; }
  Status Try(const KernelCall& call, ExchangeResources& device) override;
  KernelOutcome Run(const KernelCall& call, ExchangeResources& device,
                    transport::Channel& channel) override;

 private:
  using SplitKernel::SplitKernel;
  bool is_forward() const { return problem_.operation == Operation::kForward; }
  // Runs the call on this rank alone. REQUIRES: no other rank has a part of the image.
  cudnnStatus_t RunAlone(const KernelCall& call) const;
  cudnnStatus_t RunOwn(const KernelCall& call, CUdeviceptr buffer) const;
  Status Finish(const KernelCall& call, CUdeviceptr buffer) const;
  // Computes the statistics of the whole image, for a gradient without saved statistics.
  KernelOutcome FindStatistics(const KernelCall& call, ExchangeResources& device,
                               transport::Channel& channel);

  std::unique_ptr<NormStatistics> statistics_;  // null: no other rank has a part of the image
  std::optional<SlotExchange> slots_;
  // False: this copy contributes 0 to the gradients of scale and bias, because the program will sum
  // them over ranks.
  bool contributes_ = true;
};

}  // namespace ucudnn::spatial
