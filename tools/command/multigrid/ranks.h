// The ranks of `ucudnn multigrid`, one for each device: threads of this process, or processes that
// a launcher started. Used from main's thread only, except inside Run().
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
  // Opens the ranks that --devices, --data-parallel and the launcher's variables define. If ranks
  // are processes, waits until all have connected. An error names the option or the variable.
  static Result<std::shared_ptr<MultigridRanks>> Open(const SolveSpec& spec);

  int devices() const { return devices_; }    // devices of one replica of the network
  int replicas() const { return replicas_; }  // replicas that train together
  int all() const { return devices_ * replicas_; }
  bool are_processes() const { return process_ != nullptr; }
  // first_here() returns the first rank of this process, and here() the number of its ranks: all
  // ranks if they are threads, otherwise one.
  int first_here() const { return process_ ? process_->rank() : 0; }
  int here() const { return process_ ? 1 : all(); }
  int local_rank() const { return local_rank_; }  // a process's rank on its machine
  // Returns the number of ranks, including this process's, that share this host's processors.
  int on_this_host() const { return on_this_host_; }
  // Returns whether this process has rank 0, which alone writes output.
  bool speaks() const { return !process_ || process_->rank() == 0; }
  // Formats as "4 devices (threads of this process)".
  std::string Text() const;

  // Sets `number` on all processes to rank 0's number.
  Status Share(double& number);
  // Calls work() for each rank of this process, and returns when all ranks of the job have
  // finished. Fails if a rank of any process fails.
  Status Run(const std::function<Status(multigrid::Peers& all)>& work);
  // Returns whether the last Run() failed because a rank of another process failed or ended.
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
