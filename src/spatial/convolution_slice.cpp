#include "spatial/convolution_slice.h"

#include <algorithm>

#include "cuda/resources.h"
#include "spatial/device_numbers.h"

namespace ucudnn::spatial {
namespace {

SpatialBox BoxOf(const HaloTerm& term, Interval AxisTerm::*interval) {
  return {term[0].*interval, term[1].*interval, term[2].*interval};
}

bool ExchangesGradient(const ConvolutionProblem& problem) {
  return problem.operation != Operation::kForward;
}

const Strides& ExchangedStrides(const ConvolutionProblem& problem) {
  return ExchangesGradient(problem) ? problem.y_strides : problem.x_strides;
}

int ExchangedChannels(const ConvolutionProblem& problem) {
  return ExchangesGradient(problem) ? problem.k : problem.c;
}

}  // namespace

Correction CorrectionOf(const ConvolutionProblem& problem, const CallProperties& form) {
  if (form.work == SplitWork::kRows) return Correction::kPlaced;
  if (problem.operation == Operation::kBackwardFilter) return Correction::kAdded;
  const bool wide = problem.type == DataType::kFloat || problem.type == DataType::kDouble;
  return wide && !form.is_fused ? Correction::kAdded : Correction::kRecomputed;
}

Result<std::unique_ptr<SlicePlan>> ConvolutionSlice::Make(const PlanContext& context,
                                                          const GroupStripes& group,
                                                          const CallProperties& form) {
  const Stripes& stripes = group.stripes;
  std::unique_ptr<ConvolutionSlice> plan(new ConvolutionSlice(context, group, form));
  plan->PlanPackets(group);
  switch (plan->correction_) {
    case Correction::kAdded:
      UCUDNN_RETURN_IF_ERROR(plan->PlanTerms(context, stripes));
      break;
    case Correction::kRecomputed:
      UCUDNN_RETURN_IF_ERROR(plan->PlanRegions(context, stripes));
      break;
    case Correction::kPlaced:
      plan->PlanPlaces(stripes);
      break;
  }
  return std::unique_ptr<SlicePlan>(std::move(plan));
}

void ConvolutionSlice::PlanPackets(const GroupStripes& group) {
  const auto rank_of = [&](int cell) { return group.ranks[static_cast<size_t>(cell)]; };
  const Exchange tensor = ExchangesGradient(problem_) ? Exchange::kOutput : Exchange::kImage;
  std::vector<Packet> receives, sends;
  size_t end = 0;
  for (const HaloMessage& message : group.stripes.Received()) {
    std::vector<OwnBox> boxes;
    for (const HaloBlock& block : message.blocks) boxes.push_back({tensor, block.box});
    receives.push_back(MakePacket(rank_of(message.peer), boxes, end));
  }
  const size_t received_end = end;
  for (const HaloSend& send : group.stripes.Sent()) {
    std::vector<OwnBox> boxes;
    for (const SpatialBox& box : send.boxes) boxes.push_back({tensor, box});
    sends.push_back(MakePacket(rank_of(send.peer), boxes, end));
  }
  TakePackets(std::move(receives), std::move(sends), received_end, end);
}

void ConvolutionSlice::PlanPlaces(const Stripes& stripes) {
  const size_t element = ElementBytes(problem_.type);
  const std::vector<HaloMessage> messages = stripes.Received();
  for (size_t m = 0; m < messages.size(); ++m) {
    const GridCell cell = stripes.grid.CellOf(messages[m].peer);
    const std::array<int, kMaxSpatial> part = {cell.d, cell.h, cell.w};
    for (size_t b = 0; b < messages[m].blocks.size(); ++b) {
      const SpatialBox& box = messages[m].blocks[b].box;
      SpatialBox target = box;
      for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
        const std::vector<Interval>& elements = stripes.cuts[axis].elements;
        target[axis].begin += elements[static_cast<size_t>(part[axis])].begin -
                              elements[static_cast<size_t>(stripes.part[axis])].begin +
                              problem_.pad[axis];
      }
      const BoxExtents extents = ExtentsOf(problem_.n, problem_.c, box);
      placed_.push_back(
          {BoxCopy(extents, PackedStrides(problem_.layout, extents), problem_.y_strides, element),
           receives_[m].blocks[b].place, OffsetOf(target, problem_.y_strides, element)});
    }
  }
}

Status ConvolutionSlice::PlanTerms(const PlanContext& context, const Stripes& stripes) {
  const std::vector<HaloMessage> messages = stripes.Received();
  for (size_t m = 0; m < messages.size(); ++m) {
    for (size_t b = 0; b < messages[m].blocks.size(); ++b) {
      const HaloBlock& block = messages[m].blocks[b];
      for (const HaloTerm& term : block.terms) {
        UCUDNN_RETURN_IF_ERROR(PlanTerm(context, receives_[m].blocks[b], block, term));
      }
    }
  }
  return Status::Ok();
}

// Plans a packed copy of the taps of `term`, unless `term` has all taps of the filter. For a filter
// gradient, the copy is the step's result.
void ConvolutionSlice::FetchTaps(const HaloTerm& term, PlaceAllocator& places, Step& step) const {
  const BoxExtents whole = {problem_.k, problem_.c / problem_.groups, problem_.w[0], problem_.w[1],
                            problem_.w[2]};
  const SpatialBox taps = BoxOf(term, &AxisTerm::taps);
  const BoxExtents extents = ExtentsOf(whole[0], whole[1], taps);
  if (extents == whole) return;
  const size_t element = ElementBytes(problem_.type);
  const Strides strides = PackedStrides(problem_.layout, whole);
  const Strides packed = PackedStrides(problem_.layout, extents);
  const size_t place = places.Take(static_cast<size_t>(Elements(extents)) * element);
  const int64_t at = OffsetOf(taps, strides, element);
  if (problem_.operation == Operation::kBackwardFilter) {
    step.result = place;
    step.result_at = at;
    step.fetch_result = BoxCopy(extents, strides, packed, element);
    step.store_result = BoxCopy(extents, packed, strides, element);
  } else {
    step.filter = place;
    step.fetches.push_back(
        {Source::kFilter, 0, BoxCopy(extents, strides, packed, element), at, place});
  }
}

Status ConvolutionSlice::MakeConvolution(const PlanContext& context,
                                         const ConvolutionProblem& problem, PlaceAllocator& places,
                                         Step& step) {
  // Prefers engines that need no more workspace than the received rows occupy.
  EngineDemand demand = context.demand;
  demand.preferred_workspace_bytes = received_end_;
  UCUDNN_ASSIGN_OR_RETURN(
      step.convolution, SmallConvolution::Make(context.functions, context.handle, problem, demand));
  step.workspace = places.Take(step.convolution->workspace_bytes());
  shared_end_ = std::max(shared_end_, places.end());
  steps_.push_back(std::move(step));
  return Status::Ok();
}

Status ConvolutionSlice::PlanTerm(const PlanContext& context, const Block& received,
                                  const HaloBlock& block, const HaloTerm& term) {
  const bool forward = problem_.operation == Operation::kForward;
  const size_t element = ElementBytes(problem_.type);
  ConvolutionProblem small = problem_;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    small.x[axis] = static_cast<int32_t>(term[axis].elements.Length());
    small.w[axis] = static_cast<int32_t>(term[axis].taps.Length());
    small.pad[axis] = static_cast<int32_t>(term[axis].pad);
  }
  SetPackedStrides(small);
  Step step;
  step.is_added = true;
  PlaceAllocator places(received_end_);

  // If the term reads all received rows of the block and they are aligned, the convolution reads
  // them where they arrived. Otherwise it reads a packed copy.
  const SpatialBox read = BoxOf(term, forward ? &AxisTerm::elements : &AxisTerm::windows);
  const BoxExtents whole = ExtentsOf(problem_.n, ExchangedChannels(problem_), block.box);
  const BoxExtents part = ExtentsOf(whole[0], whole[1], read);
  if (part == whole && received.place % kPlaceAlignment == 0) {
    step.exchanged = received.place;
  } else {
    const Strides from = PackedStrides(problem_.layout, whole);
    step.exchanged = places.Take(static_cast<size_t>(Elements(part)) * element);
    step.fetches.push_back(
        {Source::kReceived, 0, BoxCopy(part, from, PackedStrides(problem_.layout, part), element),
         static_cast<int64_t>(received.place) + OffsetOf(read, from, element), step.exchanged});
  }
  FetchTaps(term, places, step);
  const SpatialBox own = BoxOf(term, forward ? &AxisTerm::windows : &AxisTerm::elements);
  const Strides& strides = forward ? problem_.y_strides : problem_.x_strides;
  const BoxExtents extents = ExtentsOf(problem_.n, forward ? problem_.k : problem_.c, own);
  const Strides packed = PackedStrides(problem_.layout, extents);
  const size_t place = places.Take(static_cast<size_t>(Elements(extents)) * element);
  const int64_t at = OffsetOf(own, strides, element);
  if (problem_.operation == Operation::kBackwardFilter) {
    step.image = place;
    step.fetches.push_back(
        {Source::kImage, 0, BoxCopy(extents, strides, packed, element), at, place});
  } else {
    step.result = place;
    step.result_at = at;
    step.fetch_result = BoxCopy(extents, strides, packed, element);
    step.store_result = BoxCopy(extents, packed, strides, element);
  }
  return MakeConvolution(context, small, places, step);
}

Status ConvolutionSlice::PlanRegions(const PlanContext& context, const Stripes& stripes) {
  const std::vector<HaloMessage> messages = stripes.Received();
  const std::vector<RecomputedBox> regions = RecomputedBoxes(stripes, messages);
  for (const RecomputedBox& region : regions) {
    UCUDNN_RETURN_IF_ERROR(PlanRegion(context, messages, region));
  }
  return Status::Ok();
}

ConvolutionSlice::Fetch ConvolutionSlice::FetchAssembled(std::span<const HaloMessage> messages,
                                                         const AssembledCopy& copy,
                                                         const BoxExtents& assembled,
                                                         size_t place) const {
  const size_t element = ElementBytes(problem_.type);
  const BoxExtents extents = ExtentsOf(assembled[0], assembled[1], copy.from);
  const Strides to = PackedStrides(problem_.layout, assembled);
  SpatialBox target;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) target[axis] = {copy.to[axis], copy.to[axis]};
  Fetch fetch;
  fetch.to = place + static_cast<size_t>(OffsetOf(target, to, element));
  if (copy.message == AssembledCopy::kOwn) {
    const Strides& from = ExchangedStrides(problem_);
    fetch.source = Source::kExchanged;
    fetch.copy = BoxCopy(extents, from, to, element);
    fetch.from = OffsetOf(copy.from, from, element);
    return fetch;
  }
  const auto message = static_cast<size_t>(copy.message);
  const auto block = static_cast<size_t>(copy.block);
  const SpatialBox& box = messages[message].blocks[block].box;
  const Strides from = PackedStrides(problem_.layout, ExtentsOf(assembled[0], assembled[1], box));
  fetch.source = Source::kReceived;
  fetch.copy = BoxCopy(extents, from, to, element);
  fetch.from = static_cast<int64_t>(receives_[message].blocks[block].place) +
               OffsetOf(copy.from, from, element);
  return fetch;
}

void ConvolutionSlice::FetchFused(const PlanContext& context, const BoxExtents& extents,
                                  PlaceAllocator& places, Step& step) {
  const bool forward = problem_.operation == Operation::kForward;
  const Strides& strides = forward ? problem_.y_strides : problem_.x_strides;
  const Strides packed = PackedStrides(problem_.layout, extents);
  const int64_t first = step.result_at / static_cast<int64_t>(ElementBytes(problem_.type));
  step.keeps_fused = form_.reads_result;
  const auto add = [&](size_t operand, DataType type) {
    const size_t element = ElementBytes(type);
    const size_t bytes = static_cast<size_t>(Elements(extents)) * element;
    size_t place = kept_bytes_;
    if (step.keeps_fused) {
      kept_bytes_ += Aligned(bytes);
    } else {
      place = places.Take(bytes);
    }
    step.fused.push_back({operand, place});
    (step.keeps_fused ? step.kept : step.fetches)
        .push_back({Source::kFused, operand, BoxCopy(extents, strides, packed, element),
                    first * static_cast<int64_t>(element), place});
  };
  // Without an execution plan, operand 0 is z of cudnnConvolutionBiasActivationForward.
  if (context.demand.fused_plan == nullptr) return add(0, problem_.type);
  const std::vector<cudnn::FusedOperand>& operands =
      context.demand.fused_plan->convolution.operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].is_batched()) add(i, operands[i].type);
  }
}

Status ConvolutionSlice::PlanRegion(const PlanContext& context,
                                    std::span<const HaloMessage> messages,
                                    const RecomputedBox& region) {
  const bool forward = problem_.operation == Operation::kForward;
  const size_t element = ElementBytes(problem_.type);
  ConvolutionProblem small = problem_;
  BoxExtents assembled = {problem_.n, ExchangedChannels(problem_)};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    assembled[2 + axis] = region.assembled[axis];
    small.x[axis] =
        static_cast<int32_t>(forward ? region.assembled[axis] : region.result[axis].Length());
    small.pad[axis] = static_cast<int32_t>(region.pad[axis]);
  }
  SetPackedStrides(small);
  Step step;
  PlaceAllocator places(received_end_);
  step.exchanged = step.zero_place =
      places.Take(static_cast<size_t>(Elements(assembled)) * element);
  step.zero_bytes = static_cast<size_t>(Elements(assembled)) * element;
  int64_t filled = 0;
  for (const AssembledCopy& copy : region.copies) {
    step.fetches.push_back(FetchAssembled(messages, copy, assembled, step.exchanged));
    filled += Elements(copy.from);
    if (copy.message == AssembledCopy::kOwn) continue;
    const auto& arrival = receives_[static_cast<size_t>(copy.message)].arrival;
    if (arrival && std::ranges::count(step.arrivals, *arrival) == 0) {
      step.arrivals.push_back(*arrival);
    }
  }
  if (filled == Elements(SpatialBox{Interval{0, assembled[2]}, Interval{0, assembled[3]},
                                    Interval{0, assembled[4]}})) {
    step.zero_bytes = 0;
  }
  const Strides& strides = forward ? problem_.y_strides : problem_.x_strides;
  const BoxExtents extents =
      ExtentsOf(problem_.n, forward ? problem_.k : problem_.c, region.result);
  const Strides packed = PackedStrides(problem_.layout, extents);
  const auto bytes = static_cast<size_t>(Elements(extents)) * element;
  step.result_at = OffsetOf(region.result, strides, element);
  step.result_count = static_cast<size_t>(Elements(extents));
  step.fetch_result = BoxCopy(extents, strides, packed, element);
  step.store_result = BoxCopy(extents, packed, strides, element);
  step.is_kept = form_.reads_result && !form_.is_fused;
  if (step.is_kept) {
    step.result = kept_bytes_;
    step.kept.push_back({Source::kResult, 0, step.fetch_result, step.result_at, kept_bytes_});
    kept_bytes_ += Aligned(bytes);
  } else {
    step.result = places.Take(bytes);
  }
  if (form_.is_fused) FetchFused(context, extents, places, step);
  return MakeConvolution(context, small, places, step);
}

}  // namespace ucudnn::spatial
