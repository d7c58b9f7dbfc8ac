#include "interposer/legacy/legacy_kernel.h"

#include "cudnn/mixed_engines.h"
#include "planning/decision/promises.h"

namespace ucudnn::interposer {

using execution::Schedule;
using planning::BuildOutcome;

tuning::KernelToMeasure TuningKernel(Process& process, const LegacyKernel& kernel) {
  const Session& session = *kernel.session;
  tuning::KernelToMeasure asked{session.device(),  kernel.problem,      session.platform(),
                                kernel.handle,     session.Capturing(), kernel.graph,
                                kernel.may_measure};
  const size_t limit = process.rules.UserLimit(session);
  if (limit != kNoLimit) asked.must_fit = limit;
  return asked;
}

namespace {

// Compares the plan that the existing measurements allow, before more are made. If time runs out
// later, at least this plan may run. Under one budget the plan depends on the kernel's share, so it
// is compared once the share is known.
void CompareKnown(Process& process, LegacyKernel kernel, const planning::PromiseRequest& request) {
  if (kernel.session->budget() != nullptr) return;
  kernel.may_measure = false;
  const tuning::KernelToMeasure asked = TuningKernel(process, kernel);
  const tuning::LegacyRows known = process.engines.Get(asked, request);
  if (known.settled) return;
  const auto plan = planning::MakePromise(tuning::OwnCandidates(kernel.problem, known), request);
  if (!plan || !planning::NeedsTrust(plan->configuration)) return;
  const planning::Trust trust =
      process.engines.Verify(asked, {plan->configuration, plan->undivided, planning::Proof::kOnce});
  if (trust.kind == planning::Trust::Kind::kWrong) {
    process.reporter.Fallback(kernel.problem, planning::FallbackCause::kDivisionWrong,
                              trust.message);
  }
}

}  // namespace

tuning::LegacyRows Measured(Process& process, const LegacyKernel& kernel,
                            const planning::PromiseRequest& request) {
  if (kernel.may_measure) CompareKnown(process, kernel, request);
  tuning::LegacyRows measured = process.engines.Get(TuningKernel(process, kernel), request);
  if (kernel.may_measure && !measured.status.ok()) {
    process.reporter.Fallback(kernel.problem, planning::FallbackCause::kCannotBeMeasured,
                              measured.status.message());
  }
  process.reporter.NoteUnlikeRanks();
  return measured;
}

planning::Tilings TilingsOf(Process& process, const LegacyKernel& kernel,
                            const planning::PromiseRequest& request) {
  planning::Tilings tilings = process.engines.GetTilings(TuningKernel(process, kernel), request);
  process.reporter.NoteUnlikeRanks();
  return tilings;
}

Confirmation FindConfirmed(Process& process, const LegacyKernel& kernel) {
  const Session& session = *kernel.session;
  FollowedPlan* const followed = process.rules.PlanFor(session, kernel.problem, Api::kLegacy);
  if (followed == nullptr) return {};
  // Confirming makes the library create descriptors, which is forbidden in a capture.
  const cudnnHandle_t handle = session.Capturing() ? nullptr : kernel.handle;
  const FollowedPlan::Found found =
      followed->Find(session.device().platform, session.platform(), kernel.problem, handle);
  if (found.why) {
    process.reporter.Fallback(kernel.problem,
                              found.unanswered ? planning::FallbackCause::kWorkspacePlanUnanswered
                                               : planning::FallbackCause::kWorkspacePlanDoesNotHold,
                              *found.why);
    // A kernel whose entry does not hold gives up its place in a segment of the workspace plan.
    if (session.budget() != nullptr && !found.unanswered) session.budget()->Drop(kernel.problem);
  }
  Confirmation fact;
  fact.unanswered = found.unanswered;
  if (found.confirmed != nullptr) fact.choice = *found.confirmed;
  return fact;
}

planning::Rows LegacyAnswers::Answer(const planning::Measure& question) {
  const tuning::LegacyRows measured = Measured(process_, kernel_, question.request);
  return {tuning::OwnCandidates(kernel_.problem, measured), measured.settled, measured.late};
}

planning::Trust LegacyAnswers::Answer(const planning::Compare& question) {
  const bool capturing = kernel_.session->Capturing();
  planning::Compare asked = question;
  if (capturing) asked.proof = WithoutComparing(asked.proof);
  return process_.engines.Verify(TuningKernel(process_, kernel_), asked);
}

BuildOutcome LegacyAnswers::Answer(const planning::Build& question) {
  schedule_.reset();
  const tuning::KernelToMeasure kernel = TuningKernel(process_, kernel_);
  cudnn::MixedEngines engines(process_.functions, kernel_.handle,
                              process_.engines.GraphEnginesOf(kernel, question.configuration));
  const auto make = [&](const Configuration& pieces) -> Result<std::unique_ptr<Schedule>> {
    UCUDNN_ASSIGN_OR_RETURN(const Division division, DivisionOf(kernel_.problem, pieces));
    return Schedule::Make(engines, {kernel_.problem, division, question.undivided});
  };
  auto schedule = make(question.configuration);
  if (!schedule.ok()) {
    const bool no_undivided = !make({}).ok();
    return {no_undivided ? BuildOutcome::Kind::kNoUndivided : BuildOutcome::Kind::kNoPieces,
            schedule.message()};
  }
  schedule_ = std::move(*schedule);
  return {};
}

std::optional<NumericClass> LegacyAnswers::CoarsestOf(const planning::Decision& decision) {
  const auto numeric = process_.engines.CoarsestClass(TuningKernel(process_, kernel_),
                                                      decision.configuration, decision.undivided);
  return numeric.ok() ? std::optional(*numeric) : std::nullopt;
}

}  // namespace ucudnn::interposer
