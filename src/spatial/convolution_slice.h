// A slice of a split convolution, and of what looks like one: received rows are added as
// convolutions of theirs, or boundary rows are computed anew from own and received ones together,
// or the rows are part of the result as they are.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "convolution/recomputation.h"
#include "spatial/slice_plan.h"

namespace ucudnn::spatial {

// How the halo becomes part of the result.
enum class Correction {
  kAdded,       // what it contributes is added to what the caller's own call computed
  kRecomputed,  // results that it touches are computed anew, with it, and overwritten
  kPlaced,      // it is part of the result, as it is
};

// Linear calls of 32 and 64 bit are corrected by adding; filter gradients always are, because their
// sums are kept in 32 bit at least.
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
  // Elements of an operand that are packed at `to` of the buffer before a small convolution, or of
  // what is kept before the caller's own call.
  struct Fetch {
    Source source = Source::kReceived;
    size_t operand = 0;  // kFused: which one
    BoxCopy copy;
    int64_t from = 0;  // bytes into the source
    size_t to = 0;
  };
  struct Step {
    std::unique_ptr<SmallConvolution> convolution;
    size_t zero_place = 0, zero_bytes = 0;  // set to 0 before the fetches
    std::vector<Fetch> fetches;
    size_t exchanged = 0, image = 0, workspace = 0;  // places of its operands
    // Of what is fused behind the sum: operands that are laid out like the result, as many
    // elements.
    struct Fused {
      size_t operand = 0, place = 0;
    };
    std::vector<Fused> fused;
    bool keeps_fused = false;      // they are in what is kept
    std::vector<Fetch> kept;       // Keep fetches these
    std::optional<size_t> filter;  // none: the caller's filter
    // The result's box: in the buffer, or in what is kept. Without a place it is the whole filter
    // gradient, where that lies.
    std::optional<size_t> result;
    BoxCopy fetch_result, store_result;
    int64_t result_at = 0;  // bytes into the result
    size_t result_count = 0;
    std::vector<size_t> arrivals;  // of the messages that it reads, added to the result
    bool is_kept = false;          // the result is in what is kept
    bool is_added = false;         // to what is there
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
  // What a region's result, of `extents`, needs of what is there before, and of what is fused.
  void FetchFused(const PlanContext& context, const BoxExtents& extents, Places& places,
                  Step& step);
  // In convolution_slice_run.cpp, as is all that follows, and what is public and runs.
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
  // A received block that is part of the result.
  struct Placed {
    BoxCopy copy;
    size_t place = 0;
    int64_t to = 0;  // bytes into the result
  };
  std::vector<Placed> placed_;
};

}  // namespace ucudnn::spatial
