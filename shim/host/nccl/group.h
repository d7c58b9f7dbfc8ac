// Groups of calls, for each thread. Calls between ncclGroupStart and the outermost ncclGroupEnd
// take effect together at the latter; a call outside is a group of its own.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/operation.h"
#include "shim/host/nccl/outcome.h"

struct CUstream_st;

namespace hostgpu::nccl {

// One communicating call; its messages have `call` = 0.
struct Call {
  std::shared_ptr<Communicator> communicator;
  CUstream_st* stream = nullptr;
  Operation operation;
};

// The API's part of a call: the result of `body` becomes the thread's last error and, inside a
// group, the group's. No exception leaves it.
ncclResult_t Guarded(const std::function<Outcome()>& body);

// Submits a call, which takes effect now or at the group's end.
Outcome Submit(Call call);
// Submits a job that makes a communicator. All jobs of a group run at once, each on a thread of its
// own. The group's end waits for `blocking` jobs; the results of other jobs become their
// communicators' states. If the group fails before, a job is destroyed without being run.
struct Job {
  std::function<Outcome()> run;
  bool blocking = true;
};
Outcome Submit(Job job);

Outcome BeginGroup();
// Makes the group fail, for this reason unless it failed before.
void FailGroup(const Outcome& outcome);
Outcome EndGroup();

}  // namespace hostgpu::nccl
