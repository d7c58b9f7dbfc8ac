#include "interposer/legacy/legacy_kernel.h"

#include "cudnn/mixed_engines.h"
#include "interposer/core/measuring.h"

namespace ucudnn::interposer {

using planning::BuildOutcome;

tuning::LegacyKernel TuningKernel(Process& process, const LegacyKernel& kernel) {
  const Session& session = *kernel.session;
  tuning::LegacyKernel asked{
      process.sessions.DeviceOf(session),  kernel.problem, session.platform(), kernel.handle,
      process.sessions.Capturing(session), kernel.graph};
  const size_t limit = UserLimit(process, session);
  if (limit != kNoLimit) asked.must_fit = limit;
  return asked;
}

tuning::LegacyAnswer Measured(Process& process, const LegacyKernel& kernel,
                              const planning::PromiseRequest& request, bool may_measure) {
  tuning::LegacyAnswer measured =
      process.engines.Get(TuningKernel(process, kernel), request, may_measure);
  if (may_measure && !measured.status.ok()) {
    process.reporter.Fallback(kernel.problem, planning::Cause::kCannotBeMeasured,
                              measured.status.message());
  }
  process.reporter.NoteUnlikeRanks();
  return measured;
}

PinnedFact FindPinned(Process& process, const LegacyKernel& kernel) {
  if (process.options.plan.empty() || process.options.mode != Mode::kOn) return {};
  const Session& session = *kernel.session;
  NoteUnpinned(process, session, kernel.problem, Api::kLegacy);
  // Confirming asks the library to build descriptors, which a capture forbids.
  const cudnnHandle_t handle = process.sessions.Capturing(session) ? nullptr : kernel.handle;
  const PinnedKernels::Found found = process.pinned.Find(
      process.sessions.DeviceOf(session).platform, session.platform(), kernel.problem, handle);
  if (found.why) {
    process.reporter.Fallback(kernel.problem,
                              found.unanswered ? planning::Cause::kPlanFileUnanswered
                                               : planning::Cause::kPlanFileDoesNotHold,
                              *found.why);
    // A kernel whose entry does not hold gives up its segment of the file's.
    if (session.network() != nullptr && !found.unanswered) session.network()->Drop(kernel.problem);
  }
  PinnedFact fact;
  fact.unanswered = found.unanswered;
  if (found.pinned != nullptr) fact.choice = *found.pinned;
  return fact;
}

planning::Rows LegacySteps::Answer(const planning::Measure& question) {
  const tuning::LegacyAnswer measured = Measured(process_, kernel_, question.request, may_measure_);
  return {tuning::OwnCandidates(kernel_.problem, measured), measured.settled, measured.late};
}

planning::Trust LegacySteps::Answer(const planning::Compare& question) {
  const bool capturing = process_.sessions.Capturing(*kernel_.session);
  return process_.engines.Verify(TuningKernel(process_, kernel_), question.plan, question.against,
                                 capturing ? planning::Proof::kKnown : question.proof);
}

BuildOutcome LegacySteps::Answer(const planning::Build& question) {
  using execution::PlannedConvolution;
  const tuning::LegacyKernel kernel = TuningKernel(process_, kernel_);
  cudnn::MixedEngines engines(process_.functions, kernel_.handle,
                              process_.engines.GraphEnginesOf(kernel, question.plan));
  auto plan =
      question.plan.runs.empty()
          ? PlannedConvolution::CreateUndivided(engines, kernel_.problem, question.undivided)
          : PlannedConvolution::Create(engines, kernel_.problem, question.plan, question.undivided);
  if (!plan.ok()) return {BuildOutcome::Kind::kNoPieces, plan.message()};
  runnable_ = std::move(*plan);
  return {};
}

}  // namespace ucudnn::interposer
