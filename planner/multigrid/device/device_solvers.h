// Solvers of stages on one device, and the ways in which their blocks run at once. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/host/network.h"

namespace ucudnn::multigrid {

enum class Way {
  kOneByOne,  // blocks one after the other
  kStreams,   // a stream for each lane, all from one host thread
  kThreads,   // a stream and a host thread for each lane, as Kirby et al. have it
  kGrouped,   // side by side, as one grouped convolution
  // The same, each cycle recorded as a CUDA graph and launched as one. Graphs of streams from
  // threads are those of streams.
  kOneByOneRecorded,
  kStreamsRecorded,
  kGroupedRecorded
};

// one, streams, threads, grouped; one-recorded, streams-recorded, grouped-recorded
const char* NameOf(Way way);
// All, in the order of the enumeration.
const std::vector<Way>& AllWays();
std::string WayNames();  // with commas between

// A solver whose weights are loaded apart from its solves.
class DeviceSolver : public StageSolver {
 public:
  // The parameters as they are now are what it solves with.
  virtual Status LoadWeights() = 0;
  // As Solve, with the weights loaded last.
  virtual Result<Solution> Run(const std::vector<double>& first, const SolveOptions& options,
                               std::vector<double>& last) = 0;

  Result<Solution> Solve(const std::vector<double>& first, const SolveOptions& options,
                         std::vector<double>& last) final;
  // Where the device's numbers have few exponents the adjoints are as large as 1 there.
  Result<Solution> SolveBackward(const std::vector<double>& last, const SolveOptions& options,
                                 std::vector<double>& first, Parameters& gradient) final;

 protected:
  explicit DeviceSolver(const Precision& precision) : precision_(precision) {}
  // Solves the adjoint from `last` on; gradient += factor * what it gives.
  virtual Result<Solution> RunBackward(const std::vector<double>& last, const SolveOptions& options,
                                       std::vector<double>& first, double factor,
                                       Parameters& gradient) = 0;

 private:
  const Precision& precision_;
};

class DeviceSolvers : public StageSolvers {
 public:
  // The target and what it points to outlive the solvers. `way` none: each stage's is the fastest
  // of all that serve it, measured on two solves of one cycle. All lanes of a stage together use at
  // most `workspace_limit` bytes of workspace. `lanes` are those of streams and threads.
  DeviceSolvers(const DeviceTarget& target, std::optional<Way> way, int lanes,
                size_t workspace_limit)
      : target_(target), way_(way), lanes_(lanes), workspace_limit_(workspace_limit) {}

  Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage) override;
  Result<std::unique_ptr<DeviceSolver>> MakeOf(const StageToSolve& stage, Way way) const;

  // What was chosen for the stage made last, and of which: seconds of one cycle. Empty where the
  // way was given.
  Way chosen() const { return chosen_; }
  struct Measured {
    Way way;
    double seconds;
  };
  const std::vector<Measured>& measured() const { return measured_; }

 private:
  DeviceTarget target_;
  std::optional<Way> way_;
  int lanes_;
  size_t workspace_limit_;
  Way chosen_ = Way::kOneByOne;
  std::vector<Measured> measured_;
};

}  // namespace ucudnn::multigrid
