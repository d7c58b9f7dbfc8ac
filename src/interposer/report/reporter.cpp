#include "interposer/report/reporter.h"

#include <string>

#include "base/log.h"
#include "interposer/core/capacity.h"

namespace ucudnn::interposer {
namespace {

std::string Words(planning::FallbackCause cause, std::string_view detail) {
  std::string words = Sentence(cause);
  if (!detail.empty()) words.append(": ").append(detail);
  return words;
}

}  // namespace

std::string Reporter::Text() {
  note_figures_(report_);
  return report_.Json(ModeName(options_.mode), kernels_.measured());
}

void Reporter::Write() {
  if (options_.report.empty() || report_.empty()) return;
  note_figures_(report_);
  MutexLock lock(write_mutex_);
  const Status status =
      report_.Write(options_.report, ModeName(options_.mode), kernels_.measured());
  if (!status.ok()) WarnOnce("report", "the report cannot be written: " + status.message());
}

void Reporter::Fallback(const ConvolutionProblem& problem, planning::FallbackCause cause,
                        std::string_view detail) noexcept {
  try {
    Unread(Describe(problem), cause, detail);
  } catch (...) {
    // Memory ran out while a fault was reported. The report then lacks this fault.
  }
}

void Reporter::Unread(const std::string& plan, planning::FallbackCause cause,
                      std::string_view detail) noexcept {
  try {
    const std::string words = Words(cause, detail);
    WarnOnce(Sentence(cause), plan + ": " + words);
    report_.AddFallback(plan, words);
  } catch (...) {
    // Memory ran out while a fault was reported. The report then lacks this fault.
  }
}

void Reporter::TooManyKernels() noexcept {
  try {
    const char* const cause = Sentence(planning::FallbackCause::kTooManyKernels);
    WarnOnce(cause, cause);
    report_.AddFallback("kernels beyond the first " + std::to_string(kMostKernels), cause);
  } catch (...) {
    // Memory ran out while a fault was reported. The report then lacks this fault.
  }
}

void Reporter::NoteUnlikeRanks() {
  if (options_.rank < 0 || unlike_ranks_noted_) return;
  const bool own = kernels_.keeps_own();
  if ((!own && hosts_share_store_) || unlike_ranks_noted_.exchange(true)) return;
  const planning::FallbackCause cause = own ? planning::FallbackCause::kRanksShareNoStore
                                            : planning::FallbackCause::kHostsShareNoStore;
  report_.AddFallback("every kernel", Sentence(cause));
}

}  // namespace ucudnn::interposer
