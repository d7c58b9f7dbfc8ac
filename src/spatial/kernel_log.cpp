#include "spatial/kernel_log.h"

#include <algorithm>
#include <utility>

#include "convolution/pooled_boxes.h"
#include "spatial/split_kernel.h"

namespace ucudnn::spatial {
namespace {

const char* KindOf(const SplitCall& call) {
  switch (call.work) {
    case SplitWork::kConvolution:
      break;
    case SplitWork::kBiasGradient:
      return "bias gradient";
    case SplitWork::kRows:
      return "rows";
    case SplitWork::kPooling:
      return cudnn::PoolingName(call.pooling);
    case SplitWork::kNorm:
      return "batch normalisation";
  }
  return "convolution";
}

// Adds to `need` the elements that the gradient of a maximum pooling reads besides dy: x under all
// windows that contain the rank's elements.
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

KernelFacts FactsOf(const SplitCall& call, const SplitKernel& kernel, std::string common,
                    const Result<GroupStripes>& group) {
  KernelFacts facts;
  facts.kind = KindOf(call);
  facts.problem = call.problem;
  facts.common = std::move(common);
  facts.refusal = kernel.refusal();
  facts.extents = kernel.extents();
  if (!kernel.refusal().empty()) {
    facts.verdict = SplitOutcome::kRefused;
    return facts;
  }
  if (call.declared.is_replicated) {
    facts.verdict = SplitOutcome::kReplicated;
    return facts;
  }
  facts.sent_bytes = kernel.sent_bytes();
  facts.received_bytes = kernel.received_bytes();
  facts.summed_bytes = kernel.reduced_bytes();
  facts.slices = (call.problem.n - 1) / std::max(kernel.slice_images(), 1) + 1;
  if (!group.ok()) return facts;
  const Stripes& stripes = group->stripes;
  facts.need = HaloNeedOf(stripes);
  if (group->pooled || call.work == SplitWork::kNorm) {
    // Each rank sends each of its numbers to every other rank exactly once, so the bytes sent and
    // received are the least possible.
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

int KernelLog::Add(KernelFacts facts) {
  MutexLock lock(mutex_);
  const auto [first, last] = numbers_.equal_range(facts.common);
  for (auto known = first; known != last; ++known) {
    KernelFacts& before = kernels_[static_cast<size_t>(known->second)].facts;
    if (before.extents != facts.extents) continue;
    before = std::move(facts);
    return known->second;
  }
  if (kernels_.size() == kMost) return kUnlisted;
  const int number = static_cast<int>(kernels_.size());
  numbers_.emplace(facts.common, number);
  kernels_.emplace_back().facts = std::move(facts);
  return number;
}

uint64_t KernelLog::Count(int number, bool is_paired) {
  MutexLock lock(mutex_);
  if (number == kUnlisted) return unlisted_calls_++;
  KernelFigures& kernel = kernels_[static_cast<size_t>(number)];
  if (is_paired) ++kernel.paired_calls;
  return kernel.calls++;
}

RankFigures KernelLog::Read() const {
  MutexLock lock(mutex_);
  RankFigures figures;
  figures.kernels = kernels_;
  figures.unlisted_calls = unlisted_calls_;
  return figures;
}

}  // namespace ucudnn::spatial
