// Solvers of stages on devices, and the choice of the way in which blocks run at once on a device.
// Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/device/device_chain.h"
#include "planner/multigrid/device/device_costs.h"
#include "planner/multigrid/device/device_exchange.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/distributed/stage_solver.h"

namespace ucudnn::multigrid {

inline constexpr Way kWays[] = {Way::kStreams, Way::kGrouped};
const char* NameOf(Way way);  // "streams" or "grouped"

// How the host gives a device the work of a cycle.
enum class Launch {
  kEach,  // call by call
  kGraph  // as a CUDA graph, recorded at the second cycle of each kind
};
inline constexpr Launch kLaunches[] = {Launch::kEach, Launch::kGraph};
const char* NameOf(Launch launch);  // "each" or "graph"

// Returns Ok if a solve with this way and launch can record the times at which lanes run steps
// (StageToSolve::notes_timeline). None means that the value is chosen later.
Status CheckTimeline(std::optional<Way> way, std::optional<Launch> launch);

// Returns the coarse operator that fits a device. `sum_cost` (MeasureSumCost) is the time of all
// layers of a block at once, divided by the time of one layer. Returns kSum up to a cost of 2,
// because a single layer with such a cost leaves much of the device idle.
CoarseOperator FittingOperator(double sum_cost);

struct DeviceSetting {
  // None: each stage is solved in the fastest way. The ways are measured in a solve of one cycle
  // (in training, with its adjoint and a descent).
  std::optional<Way> way;
  // None: cycles run as graphs if they can be recorded.
  std::optional<Launch> launch;
  int lanes = 8;  // for Way::kStreams
  // Bytes of workspace for all lanes of a stage together.
  size_t workspace_limit = 64 << 20;
  RankTransport transport;
};

// Makes the solvers of one rank.
class DeviceSolvers : public StageSolvers {
 public:
  // The target and everything to which it points must outlive the solvers.
  DeviceSolvers(const DeviceTarget& target, const DeviceSetting& setting)
      : target_(target), setting_(setting) {}

  Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage) override;

  const DeviceTarget& target() const { return target_; }
  const DeviceSetting& setting() const { return setting_; }

  // Returns the coarse operator that fits the device. Decides by the measured cost of running
  // `layers` layers at once, all like the first layer of `stage`. Returns kInject if this cannot be
  // measured.
  CoarseOperator MeasureOperator(const ResidualChain& chain, const Stage& stage, int batch,
                                 int layers) const;

  // How a stage runs.
  struct Choice {
    int levels = 0;
    Way way = Way::kStreams;
    Launch launch = Launch::kEach;
    // By way: the seconds of one cycle (with one level: of serial propagation) on the slowest rank.
    // Choose() takes the fastest way. Empty if DeviceSetting gives the way.
    struct Measured {
      Way way;
      double seconds;
    };
    std::vector<Measured> measured;
  };
  // Returns the choice for the stage with most levels; among several such stages, for the last one
  // that was made.
  const Choice& chosen() const { return chosen_; }
  // Returns the transport of the last stage on several ranks; empty if there was none.
  const std::string& transport() const { return transport_; }

 private:
  // A channel is null if it would connect this rank with no other.
  struct Channels {
    std::shared_ptr<RankChannel> ranks;     // between the ranks that share the stage
    std::shared_ptr<RankChannel> replicas;  // between the replicas of this rank's layers
  };
  Result<std::unique_ptr<StageSolver>> MakeOf(const StageToSolve& stage, const Choice& choice,
                                              const Channels& channels) const;
  Result<Launch> LaunchOf(const StageToSolve& stage, RankChannel* channel) const;
  Result<Choice> Choose(const StageToSolve& stage, const Channels& channels) const;

  DeviceTarget target_;
  DeviceSetting setting_;
  Choice chosen_;
  std::string transport_;
};

}  // namespace ucudnn::multigrid
