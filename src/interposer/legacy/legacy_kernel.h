// A kernel of the legacy API on a session, and the steps of its decision.
#pragma once

#include <memory>
#include <optional>

#include "execution/schedule.h"
#include "interposer/core/lifecycle.h"
#include "interposer/process.h"
#include "planning/decision/promises.h"
#include "tuning/legacy_kernel.h"

namespace ucudnn::interposer {

struct LegacyKernel {
  ConvolutionProblem problem;
  Session* session = nullptr;
  cudnnHandle_t handle = nullptr;
  bool graph = true;         // engines of the graph API may serve the kernel
  bool may_measure = false;  // missing measurements may be made now
};

// Returns the kernel in the form that tuning takes.
tuning::KernelToMeasure TuningKernel(Process& process, const LegacyKernel& kernel);

// Returns the kernel's measurements at the policy's micro-batch sizes for `request`; no rows if
// neither the whole mini-batch nor a configuration that fits the limit was measured. If the kernel
// may be measured and measurements are missing, first compares the plan that the existing ones
// allow.
tuning::LegacyRows Measured(Process& process, const LegacyKernel& kernel,
                            const planning::PromiseRequest& request);

// Returns the kernel's grids of tiles for `request`.
planning::Tilings TilingsOf(Process& process, const LegacyKernel& kernel,
                            const planning::PromiseRequest& request);

// The workspace plan's entry for the kernel, if the library confirms it. `unanswered` says that the
// library could not confirm the entry now, but may do so later.
struct Confirmation {
  std::optional<planning::ConfirmedLegacyKernel> choice;
  bool unanswered = false;
};
Confirmation FindConfirmed(Process& process, const LegacyKernel& kernel);

class LegacyAnswers : public DecisionAnswers {
 public:
  LegacyAnswers(Process& process, const LegacyKernel& kernel)
      : process_(process), kernel_(kernel) {}

  planning::Rows Answer(const planning::Measure& question) override;
  planning::Tilings Answer(const planning::FindTilings& question) override {
    LegacyKernel kernel = kernel_;
    kernel.may_measure &= question.may_measure;
    return TilingsOf(process_, kernel, question.request);
  }
  std::vector<MicroConfiguration> Answer(const planning::FindSubstitutes&) override { return {}; }
  planning::Trust Answer(const planning::Compare& question) override;
  planning::BuildOutcome Answer(const planning::Build& question) override;
  planning::KeptPromise Keep(const planning::Decision& decision) override {
    return *decision.promise;
  }
  std::optional<NumericClass> CoarsestOf(const planning::Decision& decision) override;

 private:
  Process& process_;
  const LegacyKernel& kernel_;
};

}  // namespace ucudnn::interposer
