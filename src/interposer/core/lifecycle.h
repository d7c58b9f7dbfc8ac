// Turns the facts about one kernel into a state that is ready to run, for both APIs. DecideBy asks
// planning::Decide, has each question answered, and adds the answer to the facts, until Decide
// returns the decision. Lifecycle then makes the state, says after how many calls the kernel is
// decided about again, and enters the state into the report.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "interposer/core/kernel_rules.h"
#include "interposer/core/kernel_state.h"
#include "interposer/report/reporter.h"
#include "planning/decision/decide.h"

namespace ucudnn::interposer {

// Answers the questions of one decision, on one thread; each API implements it.
class DecisionAnswers {
 public:
  virtual ~DecisionAnswers() = default;
  virtual planning::Rows Answer(const planning::Measure& question) = 0;
  virtual planning::Tilings Answer(const planning::FindTilings& question) = 0;
  // Is asked only about plans of the graph API.
  virtual std::vector<MicroConfiguration> Answer(const planning::FindSubstitutes& question) = 0;
  virtual planning::Trust Answer(const planning::Compare& question) = 0;
  // Builds what the question names, and keeps the pieces in `schedule_` in place of the pieces that
  // were built before.
  virtual planning::BuildOutcome Answer(const planning::Build& question) = 0;
  // Stores the decision's promise and returns it. If a promise was given before, returns the
  // earlier promise instead.
  virtual planning::KeptPromise Keep(const planning::Decision& decision) = 0;
  // Returns the coarsest NumericClass among the pieces and the undivided engine; none if unknown.
  virtual std::optional<NumericClass> CoarsestOf(const planning::Decision& decision) = 0;

  // Answers the question by building, unless `earlier`, the state in force (null: none), was built
  // for an equal question. In that case the schedule of `earlier` stays.
  planning::BuildOutcome BuildUnless(const KernelState* earlier, const planning::Build& question) {
    built_ = question;
    stays_built_ = earlier != nullptr && earlier->built == question;
    return stays_built_ ? planning::BuildOutcome() : Answer(question);
  }
  // built() returns the last question of BuildUnless; stays_built() returns whether the build of
  // the earlier state was kept for that question.
  const std::optional<planning::Build>& built() const { return built_; }
  bool stays_built() const { return stays_built_; }

  // Returns the schedule that Answer(Build) made last; null if there are no pieces.
  std::unique_ptr<execution::Schedule> TakeSchedule() { return std::move(schedule_); }

 protected:
  std::unique_ptr<execution::Schedule> schedule_;

 private:
  std::optional<planning::Build> built_;
  bool stays_built_ = false;
};

// Decides from `facts`, and adds the answers of `answers` to them. If a decision breaks an
// invariant, the earlier decision stays in force or, if there is none, the program's own call runs.
// If `reporter` is null, the decision is not recorded: nothing is reported, and no promise is
// stored. `earlier` is the state in force (null: none). The build of `earlier` is reused where
// possible.
planning::Decision DecideBy(planning::Facts& facts, DecisionAnswers& answers, Reporter* reporter,
                            const KernelState* earlier = nullptr);

// Returns the facts about the state in force. `lost_share` says that the budget has taken away the
// share of this state.
planning::EarlierDecision FactsOfEarlier(const KernelState& earlier, bool lost_share);

// One decision about a kernel, on one thread.
struct DecisionRequest {
  const KernelRules& rules;
  Reporter& reporter;
  DecisionAnswers& answers;
  KernelState* earlier = nullptr;  // the state in force; null at the first decision
  long calls = 0;                  // how many calls the kernel has had
  int epoch = 0;                   // is stored in KernelState::decided_epoch
};

// The caller calls Decide. Then, unless stands() is true, it calls Enter, publishes the state to
// other threads, and calls Published.
class Lifecycle {
 public:
  explicit Lifecycle(const DecisionRequest& request) : request_(request) {}

  // Sets `state` to the decision. REQUIRES: state.failed and state.owned.epoch are set; `facts` is
  // complete except for facts.failed, which is read from state.failed.
  void Decide(planning::Facts& facts, KernelState& state);
  // Returns whether the earlier state stays in force. If so, Decide has updated due_at and
  // decided_epoch of that state.
  bool stands() const { return stands_; }
  // Returns the number of calls after which the kernel is decided about anew.
  long due_at() const { return due_at_; }
  // Returns the record for the report.
  const KernelRecord& record() const { return record_; }

  // Enters `state` into the report. The state's record takes over the calls of the earlier state.
  void Enter(KernelState& state);
  // Rewrites the report file if that is due.
  void Published() const;

 private:
  const DecisionRequest request_;
  KernelRecord record_;
  long due_at_ = KernelState::kFinal;
  bool stands_ = false;
  bool fresh_ = false;
};

}  // namespace ucudnn::interposer
