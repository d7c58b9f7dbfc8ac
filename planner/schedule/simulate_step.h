// The time of a step in which devices compute and send at the same time. Pure function. Times are
// modelled, never measured.
#pragma once

#include "base/status.h"
#include "planner/machine/machine.h"
#include "planner/schedule/step_program.h"
#include "planner/simulate/simulate.h"

namespace ucudnn::planner {

// Simulates a step. A device computes one thing at a time. A message is sent once its sender and
// its receiver have begun the MessageBatch that has the message. The message passes the ports of
// all levels between the two devices; concurrent messages share the ports. If the devices' orders
// deadlock, the error names the actions that wait for each other. REQUIRES: each device posts
// exactly once each batch in which it has a message, and waits for a batch only after posting it.
Result<simulate::Timeline> SimulateStep(const StepProgram& program, const Machine& machine);

}  // namespace ucudnn::planner
