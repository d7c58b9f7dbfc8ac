// The devices of `ucudnn multigrid`, where there are several: ranks that are threads of this
// process, or processes that a launcher started. Used from main's thread only, but for what Run
// calls.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "planner/multigrid/distributed/process_ranks.h"

namespace ucudnn::command {

struct SolveSpec;  // solve_spec.h

class MultigridRanks {
 public:
  // By --devices, --data-parallel and the launcher's variables; processes meet here. An error names
  // the option or the variable.
  static Result<std::shared_ptr<MultigridRanks>> Open(const SolveSpec& spec);

  int devices() const { return devices_; }    // of one replica of the network
  int replicas() const { return replicas_; }  // that train together
  int all() const { return devices_ * replicas_; }
  bool are_processes() const { return process_ != nullptr; }
  // Those of this process: its threads' from rank 0 on, or the one that it is.
  int first_here() const { return process_ ? process_->rank() : 0; }
  int here() const { return process_ ? 1 : all(); }
  int local_rank() const { return local_rank_; }  // of a process, on its machine
  // Ranks that share this host's processors with this process, itself among them.
  int on_this_host() const { return on_this_host_; }
  // Whether rank 0 is in this process: it is who speaks to the user.
  bool speaks() const { return !process_ || process_->rank() == 0; }
  // "4 devices (threads of this process)".
  std::string Text() const;

  // `number` of rank 0 becomes that of all processes.
  Status Share(double& number);
  // Calls `work` for each rank of this process, and returns when all ranks of the job have done
  // theirs. The error is the job's.
  Status Run(const std::function<Status(multigrid::Peers& all)>& work);
  // Whether the last Run failed by another rank: one that died, say.
  bool others_failed() const { return others_failed_; }

 private:
  int devices_ = 1;
  int replicas_ = 1;
  int on_this_host_ = 1;
  int local_rank_ = 0;
  bool others_failed_ = false;
  std::unique_ptr<multigrid::ProcessRanks> process_;
};

}  // namespace ucudnn::command
