// What the report tells of the split calls of a rank.
#include <algorithm>

#include "spatial/split_calls.h"

namespace ucudnn::spatial {
namespace {

const char* KindOf(const CallForm& form) {
  if (form.is_bias_gradient) return "bias gradient";
  return form.is_rows ? "rows" : "convolution";
}

}  // namespace

KernelFacts SplitCalls::FactsOf(const SplitCall& call, const SplitKernel& kernel) const {
  KernelFacts facts;
  facts.kind = KindOf(FormOf(functions_, call));
  facts.problem = call.problem;
  facts.common = TextOf(call);
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
  const Result<GroupStripes> group = StripesOf(call, kernel.extents());
  if (!group.ok()) return facts;
  const Stripes& stripes = group->stripes;
  facts.need = HaloNeedOf(stripes);
  const auto bytes = [&](int64_t elements) {
    return static_cast<uint64_t>(stripes.BytesPerImage(elements) * call.problem.n);
  };
  facts.least_sent_bytes = bytes(facts.need.sent);
  facts.least_received_bytes = bytes(facts.need.received);
  return facts;
}

KernelOutcome SplitCalls::RunCounted(const SplitCall& call, LocalCall& local, SplitKernel& kernel,
                                     bool has_rows) {
  const int number = kernel.log_number();
  const bool is_first = log_.Count(number, has_rows) == 0;
  ExchangeTimes* const times =
      times_ != nullptr && !call.is_captured && times_->Begin(number, is_first, call.stream)
          ? times_.get()
          : nullptr;
  KernelOutcome outcome;
  {
    const SpanScope span(times, Span::kCall, call.stream);
    outcome =
        kernel.Run({call.call, call.stream, local, has_rows, call.declared.is_deferred, times},
                   *device_, *channel_);
  }
  if (times != nullptr) times->End();
  return outcome;
}

RankFigures SplitCalls::kernel_figures() const {
  RankFigures figures = log_.Read();
  if (times_ != nullptr) times_->Read(figures);
  return figures;
}

}  // namespace ucudnn::spatial
