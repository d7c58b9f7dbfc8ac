// Solvers of stages on devices, and the ways in which blocks of a device run at once. Not
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
  kGraph  // recorded as a CUDA graph, which is launched from the third cycle of a kind on
};
inline constexpr Launch kLaunches[] = {Launch::kEach, Launch::kGraph};
const char* NameOf(Launch launch);  // each, graph

// Ok where solves that run so can note when lanes run which steps (StageToSolve::notes_timeline).
Status CheckTimeline(std::optional<Way> way, std::optional<Launch> launch);

// The coarse operator for a device on which the layers of a block at once take `sum_cost` times as
// long as one (MeasureSumCost): sum where single layers leave it idle, so that it is 2 at most.
CoarseOperator FittingOperator(double sum_cost);

struct DeviceSetting {
  // None: each stage's way is the fastest of all that serve it, measured on solves of one cycle,
  // and in training on their adjoint's, too.
  std::optional<Way> way;
  // None: graphs where cycles can be recorded.
  std::optional<Launch> launch;
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

  const DeviceTarget& target() const { return target_; }
  const DeviceSetting& setting() const { return setting_; }

  // The coarse operator that fits the device by what the first `layers` of `stage` cost at once;
  // inject where they cannot be measured.
  CoarseOperator MeasureOperator(const ResidualChain& chain, const Stage& stage, int batch,
                                 int layers) const;

  // How a stage runs.
  struct Choice {
    int levels = 0;
    Way way = Way::kStreams;
    Launch launch = Launch::kEach;
    // The way was chosen by these seconds, which one cycle (of one level: serial propagation) takes
    // on the slowest rank. Empty where the way was given.
    struct Measured {
      Way way;
      double seconds;
    };
    std::vector<Measured> measured;
  };
  // The choice for the stage made last, among the stages with most levels.
  const Choice& chosen() const { return chosen_; }
  // How ranks of the stage made last exchange; empty where there is one.
  const std::string& transport() const { return transport_; }

 private:
  // Null where there is nobody else.
  struct Channels {
    std::shared_ptr<RankChannel> ranks;     // of the stage
    std::shared_ptr<RankChannel> replicas;  // of these layers
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
