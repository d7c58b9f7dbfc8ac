// Tells the user what did not go as planned: one warning for each cause and process, and an entry
// in the report for each kernel. Writes the report. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "interposer/report/report.h"
#include "options/options.h"
#include "planning/decision/reason.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::interposer {

class Reporter {
 public:
  // The caller owns `options` and `kernels` and keeps them alive.
  Reporter(const Options& options, const tuning::MeasuredKernels& kernels, bool hosts_share_store)
      : options_(options), kernels_(kernels), hosts_share_store_(hosts_share_store) {}
  // To be called before anything runs. note(report) brings the figures of the budgets and of
  // splitting up to date.
  void SetFigures(std::function<void(Report&)> note) { note_figures_ = std::move(note); }

  Report& report() { return report_; }
  // Returns whether the user wants reports of every kernel, even of those that ucudnn cannot
  // change.
  bool TellsAll() const { return options_.mode == Mode::kObserve || !options_.report.empty(); }
  // Returns the whole report as JSON.
  std::string Text();
  // Rewrites the report file, if the user named one and this process has called a convolution.
  void Write();

  // Reports that `cause` affects the kernel of `problem`. `detail` is the part of the message that
  // differs from kernel to kernel. Never throws, because pieces may already be enqueued.
  void Fallback(const ConvolutionProblem& problem, planning::FallbackCause cause,
                std::string_view detail = {}) noexcept;
  // Reports that ucudnn leaves a plan of the graph API unchanged; `plan` describes what the plan
  // computes.
  void Unread(const std::string& plan, planning::FallbackCause cause,
              std::string_view detail) noexcept;
  // Reports that a kernel cannot be remembered, because kMostKernels other kernels are remembered
  // already.
  void TooManyKernels() noexcept;
  // Adds one entry to the report if this process is a rank of a job and other ranks may plan
  // differently.
  void NoteUnlikeRanks();

 private:
  const Options& options_;
  const tuning::MeasuredKernels& kernels_;
  const bool hosts_share_store_;
  std::atomic<bool> unlike_ranks_noted_ = false;
  Report report_;
  std::function<void(Report&)> note_figures_ = [](Report&) {};
  Mutex write_mutex_;  // held by the thread that writes the report file
};

}  // namespace ucudnn::interposer
