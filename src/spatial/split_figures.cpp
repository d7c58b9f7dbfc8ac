// Makes the report's figures of a kernel on which ranks have agreed.
#include <algorithm>

#include "convolution/pooled_boxes.h"
#include "spatial/kernel_agreement.h"

namespace ucudnn::spatial {
namespace {

const char* KindOf(const CallForm& form) {
  switch (form.work) {
    case SplitWork::kConvolution:
      break;
    case SplitWork::kBiasGradient:
      return "bias gradient";
    case SplitWork::kRows:
      return "rows";
    case SplitWork::kPooling:
      return cudnn::PoolingName(form.pooling);
    case SplitWork::kNorm:
      return "batch normalisation";
  }
  return "convolution";
}

// Adds to `need` the elements that the gradient of a maximum pooling reads besides dy: x under all
// windows over the rank's elements.
HaloNeed WithMaxima(const Stripes& stripes, HaloNeed need) {
  const SpatialBox own = OwnedByPooling(stripes, stripes.cell).elements;
  const SpatialBox read = ReadByPooling(stripes, stripes.cell).elements;
  need.received += Elements(read) - Elements(Intersection(read, own));
  for (int other = 0; other < stripes.grid.GroupSize(); ++other) {
    if (other == stripes.cell) continue;
    need.sent += Elements(Intersection(ReadByPooling(stripes, other).elements, own));
  }
  return need;
}

}  // namespace

KernelFacts KernelAgreement::FactsOf(const Turn& turn, const SplitKernel& kernel) const {
  const SplitCall& call = turn.call;
  KernelFacts facts;
  facts.kind = KindOf(turn.form);
  facts.problem = call.problem;
  facts.common = TextOf(turn);
  facts.refusal = kernel.refusal();
  facts.extents = kernel.extents();
  if (!kernel.refusal().empty()) {
    facts.verdict = Verdict::kRefused;
    return facts;
  }
  if (call.declared.is_replicated) {
    facts.verdict = Verdict::kReplicated;
    return facts;
  }
  facts.sent_bytes = kernel.sent_bytes();
  facts.received_bytes = kernel.received_bytes();
  facts.summed_bytes = kernel.reduced_bytes();
  facts.slices = (call.problem.n - 1) / std::max(kernel.slice_images(), 1) + 1;
  const Result<GroupStripes> group = StripesOf(call, kernel.extents(), kernel.windows());
  if (!group.ok()) return facts;
  const Stripes& stripes = group->stripes;
  facts.need = HaloNeedOf(stripes);
  if (group->pooled || call.work == SplitWork::kNorm) {
    // Each rank sends each of its numbers to every other rank exactly once, so the least bytes are
    // equal to the bytes sent and received.
    facts.least_sent_bytes = facts.sent_bytes;
    facts.least_received_bytes = facts.received_bytes;
    return facts;
  }
  if (call.work == SplitWork::kPooling && call.pooling.is_maximum() &&
      call.problem.operation == Operation::kBackwardData) {
    facts.need = WithMaxima(stripes, facts.need);
  }
  const auto bytes = [&](int64_t elements) {
    return static_cast<uint64_t>(stripes.BytesPerImage(elements) * call.problem.n);
  };
  facts.least_sent_bytes = bytes(facts.need.sent);
  facts.least_received_bytes = bytes(facts.need.received);
  return facts;
}

}  // namespace ucudnn::spatial
