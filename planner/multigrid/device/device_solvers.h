// Solvers of stages on one device, and the ways in which their blocks run at once. Not thread-safe.
#pragma once

#include <memory>
#include <optional>

#include "base/status.h"
#include "planner/multigrid/device/step_kernels.h"
#include "planner/multigrid/host/network.h"

namespace ucudnn::multigrid {

enum class Way {
  kOneByOne,  // blocks one after the other
  kStreams,   // a stream for each lane, all from one host thread
  kThreads,   // a stream and a host thread for each lane, as Kirby et al. have it
  kGrouped    // side by side, as one grouped convolution
};

const char* NameOf(Way way);  // one, streams, threads, grouped

class DeviceSolvers : public StageSolvers {
 public:
  // The target and what it points to outlive the solvers. `way` none: each stage's is the fastest
  // of all that serve it, measured on two solves of one cycle. All lanes of a stage together use at
  // most `workspace_limit` bytes of workspace. `lanes` are those of kStreams and kThreads.
  DeviceSolvers(const DeviceTarget& target, std::optional<Way> way, int lanes,
                size_t workspace_limit)
      : target_(target), way_(way), lanes_(lanes), workspace_limit_(workspace_limit) {}

  Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage) override;

  // What was chosen for the stage made last.
  Way chosen() const { return chosen_; }

 private:
  Result<std::unique_ptr<StageSolver>> MakeOf(const StageToSolve& stage, Way way) const;

  DeviceTarget target_;
  std::optional<Way> way_;
  int lanes_;
  size_t workspace_limit_;
  Way chosen_ = Way::kOneByOne;
};

}  // namespace ucudnn::multigrid
