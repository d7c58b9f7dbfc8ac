// The plan for a slice of images of a split convolution, or of another call that is described as a
// convolution (SplitWork). Received rows become part of the result in one of three ways
// (Correction): small convolutions add the rows' contribution, small convolutions compute the
// results at the cuts again from own and received rows, or the rows are copied.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "convolution/recomputation.h"
#include "spatial/slice_plan.h"

namespace ucudnn::spatial {

// How received rows become part of the result.
enum class Correction {
  kAdded,       // the rows' contribution is added to the result of the caller's own call
  kRecomputed,  // results that depend on the rows are computed again and overwritten
  kPlaced,      // the rows are copied into the result
};

// Returns kPlaced for calls that only receive rows, and kAdded for filter gradients, which are
// summed in at least 32 bits. For any other call, returns kAdded if the call is linear and its
// tensors have 32 or 64 bits, otherwise kRecomputed.
Correction CorrectionOf(const ConvolutionProblem& problem, const CallProperties& form);

class ConvolutionSlice : public SlicePlan {
 public:
  static Result<std::unique_ptr<SlicePlan>> Make(const PlanContext& context,
                                                 const GroupStripes& group,
                                                 const CallProperties& form);

  Status Keep(const SliceCall& slice) const override;
  Status Try(const SliceCall& slice) const override;
  Status Correct(const SliceCall& slice) const override;

 private:
  enum class Source { kReceived, kExchanged, kImage, kFilter, kFused, kResult };
  // Copies elements of an operand, in packed form, to place `to`. Copies that precede a small
  // convolution go to the buffer; copies that precede the caller's own call go to the kept memory
  // (SliceCall::kept).
  struct Fetch {
    Source source = Source::kReceived;
    size_t operand = 0;  // index of the fused operand, for kFused
    BoxCopy copy;
    int64_t from = 0;  // offset in bytes within the source
    size_t to = 0;
  };
  struct Step {
    std::unique_ptr<SmallConvolution> convolution;
    // The range of the buffer that is set to 0 before the fetches, because fetches do not write the
    // padding.
    size_t zero_place = 0, zero_bytes = 0;
    std::vector<Fetch> fetches;
    size_t exchanged = 0, image = 0, workspace = 0;  // places of the convolution's operands
    // A fused operand that has one element for each element of the result, in the layout of the
    // result.
    struct Fused {
      size_t operand = 0, place = 0;
    };
    std::vector<Fused> fused;
    bool keeps_fused = false;  // fused operands are in the kept memory
    std::vector<Fetch> kept;   // the copies that Keep makes
    // Place of the packed taps. None: the step uses the caller's whole filter.
    std::optional<size_t> filter;
    // Place of the result's box, in the buffer or in the kept memory. None if the result is the
    // whole filter gradient in the caller's memory.
    std::optional<size_t> result;
    BoxCopy fetch_result, store_result;
    int64_t result_at = 0;  // offset of the box in bytes within the caller's result
    size_t result_count = 0;
    // Places of the arrival numbers (SlicePlan::Pack) of the messages that the step reads. The
    // numbers are added to the step's result.
    std::vector<size_t> arrivals;
    bool is_kept = false;   // `result` is a place in the kept memory
    bool is_added = false;  // the step adds to the old result
  };

  ConvolutionSlice(const PlanContext& context, const GroupStripes& group,
                   const CallProperties& form)
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
                         PlaceAllocator& places, Step& step);
  void FetchTaps(const HaloTerm& term, PlaceAllocator& places, Step& step) const;
  // Plans the copies of the fused operands that a recomputed box of `extents` needs.
  void FetchFused(const PlanContext& context, const BoxExtents& extents, PlaceAllocator& places,
                  Step& step);
  // The private functions from here on, and the public functions that run a plan, are defined in
  // convolution_slice_run.cpp.
  bool exchanges_gradient() const { return problem_.operation != Operation::kForward; }
  CUdeviceptr Address(const SliceCall& slice, const Fetch& fetch) const;
  static CUdeviceptr ResultOf(const Step& step, const SliceCall& slice);
  // A call of a step's convolution, and the structures to which the call points.
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
    int64_t to = 0;  // offset in bytes within the result
  };
  std::vector<Placed> placed_;
};

}  // namespace ucudnn::spatial
