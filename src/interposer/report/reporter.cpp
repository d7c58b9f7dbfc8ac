#include "interposer/report/reporter.h"

#include <string>

#include "base/log.h"
#include "interposer/core/capacity.h"

namespace ucudnn::interposer {
namespace {

std::string Words(planning::Cause cause, std::string_view detail) {
  std::string words = Sentence(cause);
  if (!detail.empty()) words.append(": ").append(detail);
  return words;
}

}  // namespace

void Reporter::Fallback(const ConvolutionProblem& problem, planning::Cause cause,
                        std::string_view detail) noexcept {
  try {
    const std::string kernel = Describe(problem), words = Words(cause, detail);
    WarnOnce(Sentence(cause), kernel + ": " + words);
    report_.AddFallback(kernel, words);
  } catch (...) {
    // Out of memory while reporting a fault: the call's result matters more.
  }
}

void Reporter::Unread(const std::string& plan, planning::Cause cause,
                      std::string_view detail) noexcept {
  try {
    const std::string words = Words(cause, detail);
    WarnOnce(Sentence(cause), plan + ": " + words);
    report_.AddFallback(plan, words);
  } catch (...) {
    // Out of memory, as above.
  }
}

void Reporter::TooManyKernels() noexcept {
  try {
    const std::string cause = "too many different kernels: others run as the caller asked";
    WarnOnce(cause, cause);
    report_.AddFallback("kernels beyond the first " + std::to_string(kMostKernels), cause);
  } catch (...) {
    // Out of memory, as above.
  }
}

void Reporter::NoteUnlikeRanks() {
  if (rank_ < 0 || unlike_ranks_noted_) return;
  const char* cause = nullptr;
  if (kernels_.keeps_own()) {
    cause =
        "measured for this process alone: ranks that share no store may choose different plans; "
        "name one that all can write with UCUDNN_DATABASE";
  } else if (!hosts_share_store_) {
    cause =
        "the store lies on a network file system, where every host writes its own: ranks of "
        "different hosts may choose different plans until `ucudnn cache merge` joins them";
  }
  if (cause == nullptr || unlike_ranks_noted_.exchange(true)) return;
  report_.AddFallback("every kernel", cause);
}

}  // namespace ucudnn::interposer
