// Tells the user what did not go as planned: one warning for each cause and process, and an entry
// in the report for each kernel. Thread-safe.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "interposer/report/report.h"
#include "options/options.h"
#include "planning/decision/reason.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::interposer {

class Reporter {
 public:
  // The caller owns `kernels` and keeps it alive.
  Reporter(const Options& options, const tuning::MeasuredKernels& kernels, bool hosts_share_store)
      : rank_(options.rank), kernels_(kernels), hosts_share_store_(hosts_share_store) {}

  Report& report() { return report_; }

  // Reports that `cause` affects the kernel of `problem`. `detail` is the part of the message that
  // differs from kernel to kernel. Never throws, because pieces may already be enqueued.
  void Fallback(const ConvolutionProblem& problem, planning::FallbackCause cause,
                std::string_view detail = {}) noexcept;
  // Reports that ucudnn leaves a plan of the graph API unchanged; `plan` describes what it
  // computes.
  void Unread(const std::string& plan, planning::FallbackCause cause,
              std::string_view detail) noexcept;
  // Reports that a kernel cannot be remembered, because there are kMostKernels others.
  void TooManyKernels() noexcept;
  // If this process is a rank of a job, adds one entry to the report if other ranks may plan
  // differently.
  void NoteUnlikeRanks();

 private:
  const int rank_;
  const tuning::MeasuredKernels& kernels_;
  const bool hosts_share_store_;
  std::atomic<bool> unlike_ranks_noted_ = false;
  Report report_;
};

}  // namespace ucudnn::interposer
