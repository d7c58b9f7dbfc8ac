// A kernel of the legacy API on a session, the facts about it, and the answers to the questions of
// its decision.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cudnn/mixed_engines.h"
#include "execution/schedule.h"
#include "interposer/core/lifecycle.h"
#include "planning/decision/promises.h"
#include "tuning/legacy_kernel.h"

namespace ucudnn::interposer {

struct LegacyKernel {
  ConvolutionProblem problem;
  Session* session = nullptr;
  cudnnHandle_t handle = nullptr;
  bool graph = true;         // engines of the graph API may run the kernel
  bool may_measure = false;  // missing measurements may be made now
};

// The workspace plan's entry for a kernel, if the library confirms it. `unanswered` says that the
// library could not confirm the entry now, but may do so later.
struct Confirmation {
  std::optional<planning::ConfirmedLegacyKernel> choice;
  bool unanswered = false;
};

// Provides the facts on which decisions about kernels of the legacy API are based: measurements,
// comparisons, engines and entries of the workspace plan. Thread-safe.
class LegacyTuner {
 public:
  // The caller owns all arguments and keeps them alive.
  LegacyTuner(const Options& options, const cudnn::Functions& functions,
              tuning::MeasuredKernels& kernels, const KernelRules& rules, Reporter& reporter)
      : kernels_(kernels),
        rules_(rules),
        reporter_(reporter),
        engines_(functions, options, kernels) {}

  // Returns the kernel's measurements at the policy's micro-batch sizes for `request`. Returns no
  // rows unless the whole mini-batch or a configuration that fits the limit was measured. If the
  // kernel may be measured, first calls CompareKnown, and then makes the measurements that are
  // missing.
  tuning::LegacyRows Measured(const LegacyKernel& kernel, const planning::PromiseRequest& request);
  // Returns false if the fastest engine may be missing among the kernel's measurements.
  bool HasAllEngines(const LegacyKernel& kernel) {
    return kernels_.HasAllEngines(kernel.session->device(), kernel.problem);
  }
  // Returns the kernel's grids of tiles for `request`.
  planning::Tilings TilingsOf(const LegacyKernel& kernel, const planning::PromiseRequest& request);
  // Returns TilingsOf without the grids that tuning::LegacyKernels::WithoutSlower leaves out.
  planning::Tilings FastTilingsOf(const LegacyKernel& kernel,
                                  const std::vector<planning::Candidate>& candidates,
                                  const planning::PromiseRequest& request, planning::Proof proof) {
    return engines_.WithoutSlower(ToMeasure(kernel), candidates, request,
                                  TilingsOf(kernel, request), proof);
  }
  planning::Trust Verify(const LegacyKernel& kernel, const planning::Compare& question) {
    return engines_.Verify(ToMeasure(kernel), question);
  }
  Confirmation FindConfirmed(const LegacyKernel& kernel);
  // Returns all legacy algorithms, and the graph engines that `configuration` names.
  cudnn::MixedEngines EnginesOf(const LegacyKernel& kernel, const Configuration& configuration) {
    return {kernel.session->functions(), kernel.handle,
            engines_.GraphEnginesOf(ToMeasure(kernel), configuration)};
  }
  // Returns the coarsest numeric class among the engines of the decision.
  Result<NumericClass> CoarsestOf(const LegacyKernel& kernel, const planning::Decision& decision) {
    return engines_.CoarsestClass(ToMeasure(kernel), decision.configuration, decision.undivided);
  }

 private:
  tuning::KernelToMeasure ToMeasure(const LegacyKernel& kernel) const;
  // Finds the best division by the existing measurements, and compares its output with the
  // undivided output. Is called before more measurements are made, so that at least this division
  // may run if time runs out later. Does nothing under one budget: there the division depends on
  // the kernel's share, and is compared once the share is known.
  void CompareKnown(LegacyKernel kernel, const planning::PromiseRequest& request);

  tuning::MeasuredKernels& kernels_;
  const KernelRules& rules_;
  Reporter& reporter_;
  tuning::LegacyKernels engines_;
};

class LegacyAnswers : public DecisionAnswers {
 public:
  LegacyAnswers(LegacyTuner& tuner, const LegacyKernel& kernel) : tuner_(tuner), kernel_(kernel) {}

  planning::Rows Answer(const planning::Measure& question) override;
  planning::Tilings Answer(const planning::FindTilings& question) override {
    LegacyKernel kernel = kernel_;
    kernel.may_measure &= question.may_measure;
    return tuner_.TilingsOf(kernel, question.request);
  }
  std::vector<MicroConfiguration> Answer(const planning::FindSubstitutes&) override { return {}; }
  planning::Trust Answer(const planning::Compare& question) override;
  planning::BuildOutcome Answer(const planning::Build& question) override;
  planning::KeptPromise Keep(const planning::Decision& decision) override {
    return *decision.promise;
  }
  std::optional<NumericClass> CoarsestOf(const planning::Decision& decision) override;

 private:
  LegacyTuner& tuner_;
  const LegacyKernel& kernel_;
};

}  // namespace ucudnn::interposer
