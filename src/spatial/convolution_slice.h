// A slice of a split convolution, and of calls that look like one. Received rows are added by small
// convolutions, or boundary rows are computed anew from own and received rows together, or received
// rows are copied into the result.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "convolution/recomputation.h"
#include "spatial/slice_plan.h"

namespace ucudnn::spatial {

// How received rows become part of the result.
enum class Correction {
  kAdded,       // their contribution is added to the result of the caller's own call
  kRecomputed,  // results that they touch are computed anew and overwritten
  kPlaced,      // they are copied into the result
};

// Linear calls in 32 and 64 bits are corrected by adding. Filter gradients always are, because
// their sums have at least 32 bits.
Correction CorrectionOf(const ConvolutionProblem& problem, const CallForm& form);

class ConvolutionSlice : public SlicePlan {
 public:
  static Result<std::unique_ptr<SlicePlan>> Make(const PlanContext& context,
                                                 const GroupStripes& group, const CallForm& form);

  Correction correction() const { return correction_; }
  Status Keep(const SliceCall& slice) const override;
  Status Try(const SliceCall& slice) const override;
  Status Correct(const SliceCall& slice) const override;

 private:
  enum class Source { kReceived, kExchanged, kImage, kFilter, kFused, kResult };
  // Elements of an operand that are packed at `to`: in the buffer before a small convolution, or in
  // the kept memory before the caller's own call.
  struct Fetch {
    Source source = Source::kReceived;
    size_t operand = 0;  // number of the fused operand, for kFused
    BoxCopy copy;
    int64_t from = 0;  // bytes into the source
    size_t to = 0;
  };
  struct Step {
    std::unique_ptr<SmallConvolution> convolution;
    size_t zero_place = 0, zero_bytes = 0;  // set to 0 before the fetches
    std::vector<Fetch> fetches;
    size_t exchanged = 0, image = 0, workspace = 0;  // places of its operands
    // A fused operand that is laid out like the result, with as many elements.
    struct Fused {
      size_t operand = 0, place = 0;
    };
    std::vector<Fused> fused;
    bool keeps_fused = false;      // fused operands are in the kept memory
    std::vector<Fetch> kept;       // Keep fetches these
    std::optional<size_t> filter;  // none: the caller's filter
    // Place of the result's box in the buffer or in the kept memory. Without a place, the result is
    // the whole filter gradient in place.
    std::optional<size_t> result;
    BoxCopy fetch_result, store_result;
    int64_t result_at = 0;  // bytes into the result
    size_t result_count = 0;
    // Places of the arrival numbers of the messages that it reads; these are added to the result.
    std::vector<size_t> arrivals;
    bool is_kept = false;   // the result is in the kept memory
    bool is_added = false;  // it is added to the old result
  };

  ConvolutionSlice(const PlanContext& context, const GroupStripes& group, const CallForm& form)
      : SlicePlan(context, group, form), correction_(CorrectionOf(group.stripes.local, form)) {}
  void PlanPackets(const GroupStripes& group);
  void PlanPlaces(const Stripes& stripes);
  Status PlanTerms(const PlanContext& context, const Stripes& stripes);
  Status PlanTerm(const PlanContext& context, const Block& received, const HaloBlock& block,
                  const HaloTerm& term);
  Status PlanRegions(const PlanContext& context, const Stripes& stripes);
  Status PlanRegion(const PlanContext& context, std::span<const HaloMessage> messages,
                    const RecomputedBox& region);
  Fetch FetchAssembled(std::span<const HaloMessage> messages, const AssembledCopy& copy,
                       const BoxExtents& assembled, size_t place) const;
  Status MakeConvolution(const PlanContext& context, const ConvolutionProblem& problem,
                         Places& places, Step& step);
  void FetchTaps(const HaloTerm& term, Places& places, Step& step) const;
  // Plans the copies of old results, and of fused operands, that a region's result of `extents`
  // needs.
  void FetchFused(const PlanContext& context, const BoxExtents& extents, Places& places,
                  Step& step);
  // The following private functions, and the public functions that run, are in
  // convolution_slice_run.cpp.
  bool exchanges_gradient() const { return problem_.operation != Operation::kForward; }
  CUdeviceptr Address(const SliceCall& slice, const Fetch& fetch) const;
  static CUdeviceptr ResultOf(const Step& step, const SliceCall& slice);
  // The call of a step's convolution, with its operands in the buffer.
  struct StepCall {
    cudnn::ConvolutionCall call;
    cudnn::BiasActivation bias;
    cudnn::FusedPointers fused;
  };
  void Fill(const Step& step, const SliceCall& slice, StepCall& to) const;
  Status RunStep(const Step& step, const SliceCall& slice) const;
  Status RunSummed(const Step& step, const SliceCall& slice, cudnn::ConvolutionCall& call) const;

  const Correction correction_;
  std::vector<Step> steps_;
  // A received block that is copied into the result.
  struct Placed {
    BoxCopy copy;
    size_t place = 0;
    int64_t to = 0;  // bytes into the result
  };
  std::vector<Placed> placed_;
};

}  // namespace ucudnn::spatial
