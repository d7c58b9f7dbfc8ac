// Leads one kernel from its facts to its decision, for both APIs: asks planning::Decide, has each
// question answered, and adds the answer to the facts until the decision comes.
#pragma once

#include <vector>

#include "interposer/core/kernel_state.h"
#include "interposer/report/reporter.h"
#include "planning/decision/decide.h"

namespace ucudnn::interposer {

// Answers the questions of one decision on one thread; each API has its own.
class Steps {
 public:
  virtual ~Steps() = default;
  virtual planning::Rows Answer(const planning::Measure& question) = 0;
  // Asked only about plans of the graph API.
  virtual std::vector<MicroConfiguration> Answer(const planning::FindSubstitutes& question) = 0;
  virtual planning::Trust Answer(const planning::Compare& question) = 0;
  // Keeps what it builds, for the caller of DecideBy to take.
  virtual planning::BuildOutcome Answer(const planning::Build& question) = 0;
  // Stores the decision's promise and returns it; returns the earlier one where one was given
  // before.
  virtual planning::KeptPromise Keep(const planning::Decision& decision) = 0;
};

// A decision that breaks an invariant is replaced by the program's own call or, where there is an
// earlier decision, by that. Without a `reporter` (null) the decision is only asked for: nothing is
// told, and no promise is stored.
planning::Decision DecideBy(planning::Facts& facts, Steps& steps, Reporter* reporter);

// The report's entry for the decision.
KernelRecord RecordOf(const planning::Facts& facts, const planning::Decision& decision);

}  // namespace ucudnn::interposer
