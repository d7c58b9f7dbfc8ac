// The tasks of one multigrid solve of a stage on several devices: what runs where, what waits for
// what, which states travel. A LayerSystem without states, which the solver's own cycles drive: so
// what is modelled is what is solved. Thread-compatible.
#pragma once

#include <vector>

#include "planner/multigrid/analysis/cluster.h"
#include "planner/multigrid/analysis/level_costs.h"
#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

// How the blocks of a device run at once.
enum class BlocksAtOnce {
  kStreams,  // a stream each
  kGrouped   // the k-th layers of all blocks as one convolution with as many groups
};

enum class CoarsePlace {
  kDistributed,    // a coarse layer is where its block begins
  kCoarsestOnOne,  // the coarsest level is on the first device
  kAllOnOne        // and so are all coarse levels
};

struct SolvePlan {
  int c_sweeps = 1;  // of every level, weighted by 1
  int cycles = 2;
  Start start = Start::kBroadcast;  // or kNested
  BlocksAtOnce blocks = BlocksAtOnce::kStreams;
  CoarsePlace coarse = CoarsePlace::kDistributed;
  // Whether every cycle ends with its residual, which all devices wait for: a solve with a
  // tolerance. Without it a device begins its next cycle while others are in the one before.
  bool measures_residuals = false;
};

// Which device has which blocks of the finest level: devices[p] those from begins[p] on, up to
// begins[p + 1]. The layers behind the last C-point are the last one's.
struct BlockRuns {
  std::vector<int> devices;
  std::vector<int> begins;
};

class SolveTasks final : public LayerSystem {
 public:
  // All but the runs outlive it. `state_bytes` are those of one state of the mini-batch.
  SolveTasks(Cluster& cluster, const planner::Device& device, const LevelCosts& costs,
             const SolvePlan& plan, double state_bytes, BlockRuns runs);

  // The first state is on the first device once `first` have ended.
  Status Add(const TaskList& first);
  // What those wait for that read device p's states of the finest level.
  const TaskList& Ready(int p) const { return levels_[0][p].ready; }

  // Phases of one level that follow each other are run together, block by block: a relaxation waits
  // for what comes behind it.
  Status Broadcast() override;
  Status RelaxF(int level, Source source) override;
  Status Advance(int level) override;
  Status RelaxC(int level) override;
  Status Restrict(int level) override;
  Status SolveSerially(int level, Source source) override;
  Status Correct(int level) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override;
  // The residual, which is all that cycles ask for: every device compares its C-points, and all of
  // them learn the sum along a tree. There are no numbers.
  Result<std::span<const double>> Parts(NormParts parts) override;
  double UnitRoundoff() const override { return 0; }

 private:
  struct Unit {  // blocks that one stream runs, or that are grouped
    int begin = 0;
    int end = 0;
    RunCost relax;
    RunCost advance;
    RunCost restrict_;
  };
  // What one device has of a level.
  struct Share {
    int device = 0;
    int begin = 0;  // blocks; the shorter one behind the last C-point counts, too
    int end = 0;
    std::vector<Unit> units;
    TaskList ready;    // what its next phase waits for
    TaskList arrived;  // and its first block beside
  };
  struct Phase {
    bool relaxes = false;
    bool advances = false;
    bool restricts = false;
    bool sends = false;  // what the last block advanced goes to the next device
  };

  // Blocks of a level, with the shorter one.
  int BlocksOf(int level) const;
  int OwnerOf(int level, int block) const;
  void MakeShares(int level);
  void MakeUnits(int level, Share& share, bool has_before, bool has_behind);
  void CostUnit(int level, Unit& unit) const;
  void BeginGraphs();
  // The phase of `level` that is to be run; that of another level is run before.
  Phase& PhaseOf(int level);
  void RunPhase();

  static constexpr int kNoLevel = -1;

  Cluster& cluster_;
  const planner::Device& device_;
  const LevelCosts& costs_;
  const SolvePlan plan_;
  const double state_bytes_;
  const std::vector<int> devices_;
  const std::vector<int> begins_;
  std::vector<std::vector<Share>> levels_;
  TaskList first_;
  int phase_level_ = kNoLevel;  // of `phase_`
  Phase phase_;
};

// Where each device's run of blocks begins, and the end, balanced by what blocks cost one device
// alone. REQUIRES: 1 <= devices <= blocks of the finest level.
std::vector<int> BalancedBlocks(const LevelCosts& costs, double launch_us, int devices);

}  // namespace ucudnn::multigrid
