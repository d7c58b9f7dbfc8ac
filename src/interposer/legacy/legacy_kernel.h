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
  bool graph = true;         // engines of the graph API may serve it
  bool may_measure = false;  // it is measured now, as far as nobody knows it
};

// The kernel as tuning names it.
tuning::LegacyKernel TuningKernel(Process& process, const LegacyKernel& kernel);

// Its measurements at the policy's micro-batch sizes, for what `request` asks; no rows when the
// undivided kernel is not among them. Where it may be measured and not all is known, the plan that
// is known is compared first.
tuning::LegacyRows Measured(Process& process, const LegacyKernel& kernel,
                            const planning::PromiseRequest& request);

// Its grids of tiles for what `request` asks.
planning::Tilings TilingsOf(Process& process, const LegacyKernel& kernel,
                            const planning::PromiseRequest& request);

// What a workspace plan says of the kernel. `unanswered`: the library could not confirm it now and
// may later.
struct Confirmation {
  std::optional<planning::ConfirmedLegacyKernel> choice;
  bool unanswered = false;
};
Confirmation FindConfirmed(Process& process, const LegacyKernel& kernel);

class LegacySteps : public Steps {
 public:
  LegacySteps(Process& process, const LegacyKernel& kernel) : process_(process), kernel_(kernel) {}

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
