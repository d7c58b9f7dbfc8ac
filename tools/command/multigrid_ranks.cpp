#include "command/multigrid_ranks.h"

#include <algorithm>
#include <optional>

#include "base/options.h"
#include "base/text.h"
#include "base/version.h"
#include "command/multigrid_words.h"
#include "planner/multigrid/distributed/thread_ranks.h"

namespace ucudnn::command {
namespace {

constexpr int kMostRanks = 1024;

// All that ranks must be asked alike: one line for each option that says what is computed.
std::vector<transport::Term> TermsOf(const MultigridWords& words) {
  return {
      {"the network", words.net + " " + words.weights + " " + words.activation + " " +
                          (words.depths.empty() ? words.layers : "depths " + words.depths) +
                          (words.frozen_norms ? " with frozen norms" : "")},
      {"--seed", words.seed},
      {"--time and --step", words.time + " " + words.step},
      {"--cycles", words.cycles + " " + words.backward_cycles},
      {"--tolerance", words.tolerance + " " + words.norm},
      {"--coarsening", words.coarsening + " " + words.levels},
      {"--relaxation", words.relaxation + " " + words.coarse},
      {"--start", words.start + (words.skip_first_down ? " skipped" : "")},
      {"--storage", words.storage},
      {"--backend", words.backend + " " + words.way + " " + words.launch + " " + words.precision +
                        " " + words.streams + " " + words.workspace_limit +
                        (words.host ? " on the host" : "")},

      {"--batch", words.batch},
      {"--check", words.check},
      {"--method", words.method},
      {"--train", words.train.empty() ? "" : words.epochs + " " + words.examples},
      {"--rate, --momentum and --repeat", words.rate + " " + words.momentum + " " + words.repeat},
      {"--data-parallel", words.data_parallel}};
}

Result<transport::Meeting> MeetingOf(const MultigridWords& words, const SpatialOptions& job) {
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
  meeting.terms = TermsOf(words);
  meeting.times.timeout = transport::Milliseconds(static_cast<long>(job.timeout_seconds * 1e3));
  meeting.times.warning = std::min(meeting.times.warning, meeting.times.timeout / 2);
  return meeting;
}

}  // namespace

Result<std::shared_ptr<MultigridRanks>> MultigridRanks::Open(const MultigridWords& words) {
  auto ranks = std::make_shared<MultigridRanks>();
  if (!words.data_parallel.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(ranks->replicas_,
                            ParseWhole("--data-parallel", words.data_parallel, 1, kMostRanks));
  }
  const SpatialOptions& job = ProcessOptions().spatial;
  const int processes =
      job.launcher.rank >= 0 || !job.launcher.fault.empty() ? job.launcher.size : 1;
  if (!words.devices.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(ranks->devices_, ParseWhole("--devices", words.devices, 1, kMostRanks));
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
  UCUDNN_ASSIGN_OR_RETURN(const transport::Meeting meeting, MeetingOf(words, job));
  UCUDNN_ASSIGN_OR_RETURN(ranks->process_, multigrid::ProcessRanks::Join(meeting));
  ranks->on_this_host_ = std::max(1, job.launcher.local_size);
  ranks->local_rank_ = std::max(0, job.local_rank);
  return ranks;
}

std::string MultigridRanks::Text() const {
  std::string text = std::to_string(devices_) + (devices_ == 1 ? " device" : " devices");
  if (replicas_ > 1) text += " for each of " + std::to_string(replicas_) + " replicas";
  return text + (are_processes() ? " (processes)" : " (threads of this process)");
}

Status MultigridRanks::Share(double& number) {
  return process_ ? multigrid::ShareNumber(*process_, 0, number) : Status::Ok();
}

Status MultigridRanks::Run(const std::function<Status(multigrid::Peers&)>& work) {
  const auto work_and_meet = [&](multigrid::Peers& peers) -> Status {
    UCUDNN_RETURN_IF_ERROR(work(peers));
    // Nobody leaves while others need them: of processes the first one passes all messages on.
    return multigrid::GatherNumbers(peers, {0, peers.size()}, {}).status();
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
