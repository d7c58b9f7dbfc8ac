#include "command/multigrid/ranks.h"

#include <algorithm>
#include <optional>

#include "base/version.h"
#include "command/multigrid/solve_spec.h"
#include "command/numbers.h"
#include "options/options.h"
#include "planner/multigrid/distributed/thread_ranks.h"

namespace ucudnn::command {
namespace {

Result<transport::Meeting> MeetingOf(const SolveSpec& spec, const SpatialOptions& job) {
  if (!job.launcher.fault.empty()) return Status::Error(job.launcher.fault);
  if (!job.rendezvous) {
    return Status::Error(
        "nobody says where ranks meet: UCUDNN_RENDEZVOUS=tcp://host:port or file:PATH");
  }
  transport::Meeting meeting;
  meeting.membership = {job.rank, job.size, 0, job.rank, job.size};
  meeting.place = *job.rendezvous;
  meeting.token = job.token;
  meeting.local_size = job.launcher.local_size;
  meeting.version = kVersion;
  meeting.terms = TermsOf(spec);
  meeting.times.timeout = transport::Milliseconds(static_cast<long>(job.timeout_seconds * 1e3));
  meeting.times.warning = std::min(meeting.times.warning, meeting.times.timeout / 2);
  return meeting;
}

}  // namespace

Result<std::shared_ptr<MultigridRanks>> MultigridRanks::Open(const SolveSpec& spec) {
  auto ranks = std::make_shared<MultigridRanks>();
  ranks->replicas_ = spec.replicas;
  const SpatialOptions& job = ProcessOptions().spatial;
  const int processes =
      job.launcher.rank >= 0 || !job.launcher.fault.empty() ? job.launcher.size : 1;
  if (!spec.devices.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(ranks->devices_,
                            ParseWhole("--devices", spec.devices, 1, kMostMultigridDevices));
  } else if (processes > 1) {
    ranks->devices_ = std::max(1, processes / ranks->replicas_);
  }
  ranks->on_this_host_ = ranks->all();
  if (processes <= 1) return ranks;
  if (ranks->all() != processes) {
    return Status::Error(job.launcher.size_variable + "=" + std::to_string(processes) +
                         " processes, and --devices and --data-parallel ask for " +
                         std::to_string(ranks->all()) + "; expected numbers that fit");
  }
  UCUDNN_ASSIGN_OR_RETURN(const transport::Meeting meeting, MeetingOf(spec, job));
  UCUDNN_ASSIGN_OR_RETURN(ranks->process_, multigrid::ProcessRanks::Join(meeting));
  ranks->on_this_host_ = std::max(1, job.launcher.local_size);
  ranks->local_rank_ = std::max(0, job.local_rank);
  return ranks;
}

std::string MultigridRanks::Text() const {
  std::string text = Counted(devices_, "device");
  if (replicas_ > 1) text += " for each of " + std::to_string(replicas_) + " replicas";
  return text + (are_processes() ? " (processes)" : " (threads of this process)");
}

Status MultigridRanks::Share(double& number) {
  return process_ ? multigrid::ShareNumber(*process_, 0, number) : Status::Ok();
}

Status MultigridRanks::Run(const std::function<Status(multigrid::Peers&)>& work) {
  const auto work_and_meet = [&](multigrid::Peers& peers) -> Status {
    UCUDNN_RETURN_IF_ERROR(work(peers));
    // Waits until all ranks have finished, because the process of rank 0 forwards the messages
    // between other ranks.
    return multigrid::GatherNumbers(peers, peers.size(), {}).status();
  };
  if (!process_) {
    multigrid::ThreadRanks threads(all());
    return multigrid::RunOnThreads(threads, all(), work_and_meet);
  }
  Status status = work_and_meet(*process_);
  if (status.ok()) return status;
  const std::optional<std::string> failure = process_->Failure();
  others_failed_ = failure.has_value();
  process_->Fail(status.message());
  return failure ? Status::Error(*failure) : status;
}

}  // namespace ucudnn::command
