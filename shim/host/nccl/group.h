// Groups of calls: each thread's own. Calls between ncclGroupStart and the outermost ncclGroupEnd
// take effect together there; a call outside is a group of its own.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shim/host/nccl/communicator.h"
#include "shim/host/nccl/operation.h"
#include "shim/host/nccl/outcome.h"

struct CUstream_st;

namespace hostgpu::nccl {

// One call that communicates; its messages say `call` = 0.
struct Call {
  std::shared_ptr<Communicator> communicator;
  CUstream_st* stream = nullptr;
  Operation operation;
};

// The API's part of a call: what `body` gives becomes the thread's last error and, inside a group,
// the group's. No exception leaves it.
ncclResult_t Guarded(const std::function<Outcome()>& body);

// Takes effect now or at the group's end.
Outcome Submit(Call call);
// The same for what makes communicators. All of a group run at once, each on a thread of its own.
// `blocking` ones are waited for; the others' results are their communicators' states. Where the
// group fails before, a job is destroyed without being run.
struct Job {
  std::function<Outcome()> run;
  bool blocking = true;
};
Outcome Submit(Job job);

Outcome BeginGroup();
// The group comes to nothing, for this reason unless it had one before.
void FailGroup(const Outcome& outcome);
Outcome EndGroup();

}  // namespace hostgpu::nccl
