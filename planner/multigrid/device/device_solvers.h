// Solvers of stages on devices, and the choice of how blocks run at once on a device. Not
// thread-safe.
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
const char* NameOf(Way way);  // streams, grouped

// How the device is given the work of a cycle.
enum class Launch {
  kEach,  // call by call
  kGraph  // recorded at the second cycle of a kind as a CUDA graph, launched from then on
};
inline constexpr Launch kLaunches[] = {Launch::kEach, Launch::kGraph};
const char* NameOf(Launch launch);  // each, graph

// Returns Ok if solves that run in this way can note when lanes run which steps
// (StageToSolve::notes_timeline). None stands for a way that is chosen later.
Status CheckTimeline(std::optional<Way> way, std::optional<Launch> launch);

// Returns the coarse operator for a device on which the layers of a block at once take `sum_cost`
// times as long as one layer (MeasureSumCost): kSum up to a cost of 2, which means that single
// layers leave the device idle.
CoarseOperator FittingOperator(double sum_cost);

struct DeviceSetting {
  // None: each stage takes the fastest of all ways that serve it, measured on a solve of one cycle,
  // in training together with its adjoint.
  std::optional<Way> way;
  // None: graphs if cycles can be recorded.
  std::optional<Launch> launch;
  int lanes = 8;  // for Way::kStreams
  // Bytes of workspace for all lanes of a stage together.
  size_t workspace_limit = 64 << 20;
  RankTransport transport;
};

// Makes the solvers of one rank.
class DeviceSolvers : public StageSolvers {
 public:
  // The target and what it points to outlive the solvers.
  DeviceSolvers(const DeviceTarget& target, const DeviceSetting& setting)
      : target_(target), setting_(setting) {}

  Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage) override;

  const DeviceTarget& target() const { return target_; }
  const DeviceSetting& setting() const { return setting_; }

  // Returns the coarse operator that fits the device, by what `layers` layers like the first of
  // `stage` cost at once. Returns kInject if that cannot be measured.
  CoarseOperator MeasureOperator(const ResidualChain& chain, const Stage& stage, int batch,
                                 int layers) const;

  // How a stage runs.
  struct Choice {
    int levels = 0;
    Way way = Way::kStreams;
    Launch launch = Launch::kEach;
    // The seconds of one cycle on the slowest rank, by way; with one level, of serial propagation.
    // The way was chosen by them. Empty if the way was given.
    struct Measured {
      Way way;
      double seconds;
    };
    std::vector<Measured> measured;
  };
  // Returns the choice of the stage that was made last among the stages with most levels.
  const Choice& chosen() const { return chosen_; }
  // Returns the transport of the last stage made on several ranks; empty if there was none.
  const std::string& transport() const { return transport_; }

 private:
  // A channel is null if there are no other ranks.
  struct Channels {
    std::shared_ptr<RankChannel> ranks;     // between the ranks of the stage
    std::shared_ptr<RankChannel> replicas;  // between the replicas of these layers
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
