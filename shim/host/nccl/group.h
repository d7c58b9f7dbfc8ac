// Groups of the calls that a thread makes. Calls between ncclGroupStart and the outermost
// ncclGroupEnd take effect together at ncclGroupEnd. A call outside such a pair is a group by
// itself.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/operation.h"
#include "shim/host/nccl/outcome.h"

struct CUstream_st;

namespace hostgpu::nccl {

// One communicating call. Its messages have `call` 0 until Launch numbers the calls of a group.
struct Call {
  std::shared_ptr<Communicator> communicator;
  CUstream_st* stream = nullptr;
  Operation operation;
};

// Returns the status of body() for an API function. An error of body() becomes the process's last
// error and, inside a group, the group's error. Exceptions become errors.
ncclResult_t Guarded(const std::function<Outcome()>& body);

// Submits a call, which takes effect at the end of the group, or now if there is no group.
Outcome Submit(Call call);
// A job that makes a communicator. All jobs of a group run concurrently, each on its own thread. If
// a group has only one job, and this job is blocking, it runs on the calling thread. EndGroup waits
// for `blocking` jobs. The result of a job that is not blocking becomes its communicator's state.
// If the group has failed before EndGroup, its jobs are destroyed and never run.
struct Job {
  std::function<Outcome()> run;
  bool blocking = true;
};
Outcome Submit(Job job);

Outcome BeginGroup();
// Makes the group fail with this reason, unless it has failed already.
void FailGroup(const Outcome& outcome);
Outcome EndGroup();

}  // namespace hostgpu::nccl
