// The devices of `ucudnn multigrid --backend cudnn`. For use from main's thread only, except for
// the solvers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "command/bench/devices.h"
#include "command/multigrid/ranks.h"
#include "planner/multigrid/device/device_solvers.h"

namespace ucudnn::command {

struct SolveSpec;  // solve_spec.h

class MultigridDevice {
 public:
  // Opens this machine's devices, or the stand-in's with --host. Each rank of this process gets
  // one; if there are fewer, several ranks share one. An error names the option.
  static Result<std::shared_ptr<MultigridDevice>> Open(const SolveSpec& spec,
                                                       const MultigridRanks& ranks);

  // Returns the solvers of one rank of this process.
  multigrid::DeviceSolvers& solvers(int rank) { return *solvers_[rank - first_rank_]; }
  // Formats "single precision on the CPU stand-in, blocks run: grouped, cycles as graphs", for the
  // stages made so far. If there are several ranks, also says which they are and how they exchange.
  std::string Text(const MultigridRanks& ranks) const;
  // Formats "single precision on the CPU stand-in".
  std::string DeviceText() const;
  bool is_stand_in() const { return is_stand_in_; }
  const multigrid::Precision& precision() const { return *precision_; }

 private:
  Status FindFunctions();

  BenchDevices devices_;
  cudnn::Functions functions_;
  bool goes_through_ucudnn_ = false;  // which this process is started with (`ucudnn run`)
  bool is_stand_in_ = false;
  const multigrid::Precision* precision_ = &multigrid::kSinglePrecision;
  int first_rank_ = 0;
  std::vector<std::unique_ptr<multigrid::DeviceSolvers>> solvers_;  // by rank of this process
};

}  // namespace ucudnn::command
