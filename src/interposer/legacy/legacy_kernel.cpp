#include "interposer/legacy/legacy_kernel.h"

#include "planning/decision/promises.h"

namespace ucudnn::interposer {

using execution::Schedule;
using planning::BuildOutcome;

tuning::KernelToMeasure LegacyTuner::ToMeasure(const LegacyKernel& kernel) const {
  const Session& session = *kernel.session;
  tuning::KernelToMeasure asked{session.device(),  kernel.problem,      session.platform(),
                                kernel.handle,     session.Capturing(), kernel.graph,
                                kernel.may_measure};
  const size_t limit = rules_.UserLimit(session);
  if (limit != kNoLimit) asked.must_fit = limit;
  return asked;
}

void LegacyTuner::CompareKnown(LegacyKernel kernel, const planning::PromiseRequest& request) {
  if (kernel.session->budget() != nullptr) return;
  kernel.may_measure = false;
  const tuning::KernelToMeasure asked = ToMeasure(kernel);
  const tuning::LegacyRows known = engines_.Get(asked, request);
  if (known.settled) return;
  const auto plan = planning::MakePromise(tuning::OwnCandidates(kernel.problem, known), request);
  if (!plan || !planning::NeedsTrust(plan->configuration)) return;
  const planning::Trust trust =
      engines_.Verify(asked, {plan->configuration, plan->undivided, planning::Proof::kOnce});
  if (trust.kind == planning::Trust::Kind::kWrong) {
    reporter_.Fallback(kernel.problem, planning::FallbackCause::kDivisionWrong, trust.message);
  }
}

tuning::LegacyRows LegacyTuner::Measured(const LegacyKernel& kernel,
                                         const planning::PromiseRequest& request) {
  if (kernel.may_measure) CompareKnown(kernel, request);
  tuning::LegacyRows measured = engines_.Get(ToMeasure(kernel), request);
  if (kernel.may_measure && !measured.status.ok()) {
    reporter_.Fallback(kernel.problem, planning::FallbackCause::kCannotBeMeasured,
                       measured.status.message());
  }
  reporter_.NoteUnlikeRanks();
  return measured;
}

planning::Tilings LegacyTuner::TilingsOf(const LegacyKernel& kernel,
                                         const planning::PromiseRequest& request) {
  planning::Tilings tilings = engines_.GetTilings(ToMeasure(kernel), request);
  reporter_.NoteUnlikeRanks();
  return tilings;
}

Confirmation LegacyTuner::FindConfirmed(const LegacyKernel& kernel) {
  const Session& session = *kernel.session;
  FollowedPlan* const followed = rules_.PlanFor(session, kernel.problem, Api::kLegacy);
  if (followed == nullptr) return {};
  // Confirming makes the library create descriptors, which is forbidden in a capture.
  const cudnnHandle_t handle = session.Capturing() ? nullptr : kernel.handle;
  const FollowedPlan::Found found =
      followed->Find(session.device().platform, session.platform(), kernel.problem, handle);
  if (found.why) {
    reporter_.Fallback(kernel.problem,
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
  const tuning::LegacyRows measured = tuner_.Measured(kernel_, question.request);
  return {tuning::OwnCandidates(kernel_.problem, measured), measured.settled, measured.late};
}

planning::Trust LegacyAnswers::Answer(const planning::Compare& question) {
  const bool capturing = kernel_.session->Capturing();
  planning::Compare asked = question;
  if (capturing) asked.proof = WithoutComparing(asked.proof);
  return tuner_.Verify(kernel_, asked);
}

BuildOutcome LegacyAnswers::Answer(const planning::Build& question) {
  schedule_.reset();
  cudnn::MixedEngines engines = tuner_.EnginesOf(kernel_, question.configuration);
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
  const auto numeric = tuner_.CoarsestOf(kernel_, decision);
  return numeric.ok() ? std::optional(*numeric) : std::nullopt;
}

}  // namespace ucudnn::interposer
