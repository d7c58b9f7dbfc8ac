// Solvers of stages on devices, and the ways in which blocks of a device run at once. Not
// thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/device/device_exchange.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/stage_solver.h"

namespace ucudnn::multigrid {

enum class Way {
  kStreams,  // a stream for each lane; one for serial propagation
  kGrouped,  // side by side, as one grouped convolution
  // The same, each cycle recorded as a CUDA graph and launched as one.
  kStreamsRecorded,
  kGroupedRecorded
};

// streams, grouped, streams-recorded, grouped-recorded
const char* NameOf(Way way);
// All, in the order of the enumeration.
const std::vector<Way>& AllWays();
std::string WayNames();  // with commas between
// Whether solves can note when lanes run which steps (StageToSolve::notes_timeline).
bool HasTimeline(Way way);

// The coarse operator for a device on which the layers of a block at once take `sum_cost` times as
// long as one (MeasureSumCost): sum where single layers leave it idle, so that it is 2 at most.
CoarseOperator FittingOperator(double sum_cost);

struct DeviceSetting {
  // None: each stage's way is the fastest of all that serve it, measured on solves of one cycle,
  // and in training on their adjoint's, too.
  std::optional<Way> way;
  int lanes = 8;  // of streams
  // Of all lanes of a stage together, bytes.
  size_t workspace_limit = 64 << 20;
  RankTransport transport;
};

// Those of one rank.
class DeviceSolvers : public StageSolvers {
 public:
  // The target and what it points to outlive the solvers.
  DeviceSolvers(const DeviceTarget& target, const DeviceSetting& setting)
      : target_(target), setting_(setting) {}

  Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage) override;

  // As MeasureDeviceSteps has it.
  Result<std::vector<std::vector<double>>> MeasureSteps(const ResidualChain& chain, int batch,
                                                        bool trains) const;

  // As MeasureDeviceMessages has it.
  Result<MessageCosts> MeasureMessages(Peers& peers, int64_t state_numbers) const;
  // As MeasureDeviceLayers has it.
  Result<std::vector<MeasuredBatches::Kind>> MeasureLayers(const ResidualChain& chain,
                                                           const NetworkLayers& network) const;
  // The coarse operator that fits the device by what the first `layers` of `stage` cost at once;
  // inject where they cannot be measured.
  CoarseOperator MeasureOperator(const ResidualChain& chain, const Stage& stage, int batch,
                                 int layers) const;

  // What was chosen for the stage made last, of those with most levels, and of which: seconds of
  // one cycle, or of serial propagation of one level, on the slowest rank. Empty where the way was
  // given.
  Way chosen() const { return chosen_.way; }
  struct Measured {
    Way way;
    double seconds;
  };
  const std::vector<Measured>& measured() const { return chosen_.measured; }
  // How ranks of the stage made last exchange; empty where there is one.
  const std::string& transport() const { return transport_; }

 private:
  Result<std::unique_ptr<StageSolver>> MakeOf(const StageToSolve& stage, Way way,
                                              std::shared_ptr<RankChannel> channel) const;
  struct Choice {
    int levels = 0;
    Way way = Way::kStreams;
    std::vector<Measured> measured;
  };
  Result<Choice> Choose(const StageToSolve& stage, std::shared_ptr<RankChannel> channel) const;

  DeviceTarget target_;
  DeviceSetting setting_;
  Choice chosen_;
  std::string transport_;
};

}  // namespace ucudnn::multigrid
