#include "shim/host/nccl/group.h"

#include <system_error>
#include <thread>
#include <utility>

#include "shim/host/nccl/launch.h"
#include "shim/host/nccl/quiet_thread.h"

namespace hostgpu::nccl {
namespace {

struct Group {
  int depth = 0;
  std::vector<Call> calls;
  std::vector<Job> jobs;
  Outcome error;  // the first error in the group
};
thread_local Group group;

Outcome RunOne(const Job& job) {
  try {
    return job.run();
  } catch (const std::bad_alloc&) {
    return {ncclSystemError, "no host memory"};
  } catch (const std::system_error&) {
    return {ncclSystemError, "no thread"};
  }
}

// Runs each job on its own thread, and waits until all blocking jobs are done; the other jobs run
// in the background.
Outcome RunAll(std::vector<Job> jobs) {
  if (jobs.size() == 1 && jobs[0].blocking) return RunOne(jobs[0]);
  std::vector<Outcome> outcomes(jobs.size() + 1);
  std::vector<std::thread> threads;
  bool in_progress = false;
  try {
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].blocking) {
        threads.push_back(QuietThread([&, i] { outcomes[i] = RunOne(jobs[i]); }));
      } else {
        QuietThread([job = std::move(jobs[i])] { (void)RunOne(job); }).detach();
        in_progress = true;
      }
    }
  } catch (const std::system_error&) {
    outcomes.back() = {ncclSystemError, "no thread to make a communicator on"};
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) {
    if (!outcome.ok()) return outcome;
  }
  return in_progress ? Outcome{ncclInProgress, {}} : Outcome{};
}

}  // namespace

ncclResult_t Guarded(const std::function<Outcome()>& body) {
  Outcome outcome;
  try {
    outcome = body();
  } catch (const std::bad_alloc&) {
    outcome = {ncclSystemError, "no host memory"};
  } catch (const std::system_error&) {
    outcome = {ncclSystemError, "no thread"};
  }
  if (!outcome.ok() && outcome.result != ncclInProgress) FailGroup(outcome);
  return Recorded(outcome);
}

Outcome Submit(Call call) {
  if (group.depth > 0) {
    group.calls.push_back(std::move(call));
    return {};
  }
  std::vector<Call> calls;
  calls.push_back(std::move(call));
  return Launch(std::move(calls));
}

Outcome Submit(Job job) {
  if (group.depth > 0) {
    group.jobs.push_back(std::move(job));
    return {};
  }
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  return RunAll(std::move(jobs));
}

Outcome BeginGroup() {
  ++group.depth;
  return {};
}

void FailGroup(const Outcome& outcome) {
  if (group.depth > 0 && group.error.ok()) group.error = outcome;
}

Outcome EndGroup() {
  if (group.depth == 0) return {ncclInvalidUsage, "ncclGroupEnd: not in a group call."};
  if (--group.depth > 0) return {};
  std::vector<Call> calls = std::exchange(group.calls, {});
  std::vector<Job> jobs = std::exchange(group.jobs, {});
  if (Outcome error = std::exchange(group.error, {}); !error.ok()) return error;
  if (!jobs.empty() && !calls.empty()) {
    return {ncclInvalidUsage, "one group makes communicators and communicates"};
  }
  return jobs.empty() ? Launch(std::move(calls)) : RunAll(std::move(jobs));
}

}  // namespace hostgpu::nccl

ncclResult_t ncclGroupStart() { return hostgpu::nccl::Guarded(hostgpu::nccl::BeginGroup); }

ncclResult_t ncclGroupEnd() { return hostgpu::nccl::Guarded(hostgpu::nccl::EndGroup); }
