// How long a step takes where devices compute and send at the same time. Pure function; times are
// modelled, never measured.
#pragma once

#include "base/status.h"
#include "planner/machine/machine.h"
#include "planner/schedule/step_program.h"
#include "planner/simulate/simulate.h"

namespace ucudnn::planner {

// A device computes one thing at a time. A message goes once sender and receiver are at its batch,
// through the ports of all levels between them, which messages under way at the same time share.
// The error names the actions that wait for each other where the devices' orders stall.
// REQUIRES: a device posts each batch that it has a message in once, before it waits for it.
Result<simulate::Timeline> SimulateStep(const StepProgram& program, const Machine& machine);

}  // namespace ucudnn::planner
