// The devices of `ucudnn multigrid --backend cudnn`. Used from main's thread only, except the
// objects that solvers() returns.
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
  // Opens this machine's devices, or the stand-in's with --host. Each rank of this process gets one
  // device. If there are fewer devices than ranks, ranks share devices. If no
  // device can be opened, the error names --backend.
  static Result<std::shared_ptr<MultigridDevice>> Open(const SolveSpec& spec,
                                                       const MultigridRanks& ranks);

  // Returns the solvers of one rank of this process.
  multigrid::DeviceSolvers& solvers(int rank) { return *solvers_[rank - first_rank_]; }
  // Describes the device and how solves run on it, such as "single precision on the CPU stand-in,
  // blocks run: grouped, cycles as graphs". If there are several ranks, also says which ranks they
  // are and how they exchange states. Says only what was chosen for the stages so far.
  std::string Text(const MultigridRanks& ranks) const;
  // Formats as "single precision on the CPU stand-in".
  std::string DeviceText() const;
  bool is_stand_in() const { return is_stand_in_; }
  const multigrid::Precision& precision() const { return *precision_; }

 private:
  Status FindFunctions();

  BenchDevices devices_;
  cudnn::Functions functions_;
  // Whether this process was started with ucudnn (`ucudnn run`).
  bool goes_through_ucudnn_ = false;
  bool is_stand_in_ = false;
  const multigrid::Precision* precision_ = &multigrid::kSinglePrecision;
  int first_rank_ = 0;
  std::vector<std::unique_ptr<multigrid::DeviceSolvers>> solvers_;  // by rank of this process
};

}  // namespace ucudnn::command
