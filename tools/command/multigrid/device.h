// The devices of `ucudnn multigrid --backend cudnn`. Used from main's thread only, but for what
// solves.
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
  // This machine's devices, or the stand-in's with --host: each rank of this process has one, and
  // where there are fewer several share one. An error names the option.
  static Result<std::shared_ptr<MultigridDevice>> Open(const SolveSpec& spec,
                                                       const MultigridRanks& ranks);

  // Of one rank of this process.
  multigrid::DeviceSolvers& solvers(int rank) { return *solvers_[rank - first_rank_]; }
  // "single precision on the CPU stand-in, blocks run: grouped, cycles as graphs", as its stages
  // were made; of several ranks which, and how they exchange.
  std::string Text(const MultigridRanks& ranks) const;
  // "single precision on the CPU stand-in".
  std::string DeviceText() const;
  bool is_stand_in() const { return is_stand_in_; }
  // Whether calls go through the ucudnn that this process is started with (`ucudnn run`).
  bool goes_through_ucudnn() const { return goes_through_ucudnn_; }
  const multigrid::Precision& precision() const { return *precision_; }

 private:
  Status FindFunctions();

  BenchDevices devices_;
  cudnn::Functions functions_;
  bool goes_through_ucudnn_ = false;
  bool is_stand_in_ = false;
  const multigrid::Precision* precision_ = &multigrid::kSinglePrecision;
  int first_rank_ = 0;
  std::vector<std::unique_ptr<multigrid::DeviceSolvers>> solvers_;  // by rank of this process
};

}  // namespace ucudnn::command
