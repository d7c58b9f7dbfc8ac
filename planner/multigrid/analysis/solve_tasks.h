// The tasks of one multigrid solve of a stage on several devices: the CUDA kernels on each device,
// their dependencies, and the states that travel. SolveTasks implements LayerSystem without states.
// The solver itself calls SolveTasks, so the model has the same steps as a real solve.
// Thread-compatible.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "planner/multigrid/analysis/cluster.h"
#include "planner/multigrid/analysis/level_costs.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

// How a device runs several blocks at once.
enum class BlocksAtOnce {
  kStreams,  // a stream for each block
  kGrouped   // layer k of all blocks is one convolution with a group for each block
};

enum class CoarsePlace {
  kDistributed,    // each coarse layer is on the device on which its block begins
  kCoarsestOnOne,  // the coarsest level is on the first device
  kAllOnOne        // all coarse levels are on the first device
};

// How a solve is set up and where its steps run. All stages of a network have the same setting.
struct MultigridSetting {
  std::vector<int> coarsening = {8};
  int levels = 0;  // the `levels` of Hierarchy::Make
  CoarseOperator coarse = CoarseOperator::kInject;
  std::vector<int> c_sweeps = {1};  // by level, as in SolveOptions
  bool skips_first_down = false;    // as in SolveOptions
  int cycles = 2;
  Start start = Start::kBroadcast;  // kBroadcast or kNested
  Storage storage = Storage::kAll;  // kAll if `blocks` is kGrouped
  BlocksAtOnce blocks = BlocksAtOnce::kStreams;
  // The most streams in which a device runs blocks. A group of blocks counts as one stream.
  int streams = std::numeric_limits<int>::max();
  Launching launching = Launching::kEach;
  CoarsePlace place = CoarsePlace::kDistributed;
  // If set, every cycle measures its residual, as in a solve with a tolerance, and all devices wait
  // for the residual. If not set, a device may begin its next cycle while other devices are still
  // in the previous one.
  bool measures_residuals = false;

  // Returns whether both settings solve the same equations in the same steps. The steps may run in
  // different places.
  bool IsSameSolve(const MultigridSetting& other) const {
    return coarsening == other.coarsening && levels == other.levels && coarse == other.coarse &&
           c_sweeps == other.c_sweeps && skips_first_down == other.skips_first_down &&
           start == other.start && storage == other.storage;
  }
  // Returns the number of streams in which `device` runs `count` blocks or layers.
  int StreamsFor(int count, const planner::Device& device) const {
    if (blocks == BlocksAtOnce::kGrouped) return 1;
    return std::min({count, device.concurrent_kernels, streams});
  }
};

// The blocks of the finest level by device. Run p has blocks begins[p] to begins[p + 1] - 1; the
// last run also has the layers after the last C-point. Run p is on device p or, if `is_reversed`,
// on the p-th device from the end.
struct BlockRuns {
  std::vector<int> begins;
  bool is_reversed = false;

  int count() const { return static_cast<int>(begins.size()) - 1; }
  int DeviceOf(int run) const { return is_reversed ? count() - 1 - run : run; }
};

class SolveTasks final : public LayerSystem {
 public:
  // All arguments but `setting` and `runs` must outlive the object. `state_bytes` is the size of
  // one state of the mini-batch.
  SolveTasks(Cluster& cluster, const planner::Device& device, const LevelCosts& costs,
             const MultigridSetting& setting, double state_bytes, BlockRuns runs);

  // Adds the tasks of the solve. The first state is on the first device when the tasks `first` have
  // ended.
  Status Add(const TaskList& first);
  // Returns the tasks for which a reader of run p's states on the finest level must wait.
  const TaskList& Ready(int p) const { return levels_[0][p].ready; }

  // RelaxF and Advance only note in `phase_` what the units of a level do next. RunPhase then adds
  // one task per unit for all that is noted. If the next operation cannot be part of these tasks,
  // RunPhase is called before it is noted.
  Status Broadcast() override;
  Status RelaxF(int level, Source source) override;
  Status Advance(int level) override;
  Status RelaxC(int level) override;
  Status Restrict(int level) override;
  Status SolveSerially(int level, Source source) override;
  Status Correct(int level) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override;
  // Adds the tasks that measure the residual, the only norm for which cycles ask. Every device
  // computes the distances between its C-points and their advanced states, and a tree of messages
  // gives the sum to all devices. Returns no numbers.
  Result<std::span<const double>> Parts(NormParts parts) override;
  double UnitRoundoff() const override { return 0; }

 private:
  struct Unit {  // blocks that one stream runs, or that form one group
    int begin = 0;
    int end = 0;
    RunCost relax;
    RunCost advance;
    RunCost restrict_;
  };
  // The blocks of a level that one device has.
  struct Share {
    int device = 0;
    // The first block; the shorter block after the last C-point counts as a block, too.
    int begin = 0;
    int end = 0;
    std::vector<Unit> units;
    TaskList ready;    // tasks for which the next phase waits
    TaskList arrived;  // tasks for which the first block of the next phase waits, too
  };
  struct Phase {
    bool relaxes = false;
    bool advances = false;
    bool restricts = false;
    bool sends = false;  // whether the last block sends its advanced state to the next device
  };

  // Returns the number of blocks of a level, including the shorter block after the last C-point.
  int BlocksOf(int level) const;
  int OwnerOf(int level, int block) const;
  void MakeShares(int level);
  void MakeUnits(int level, Share& share, bool has_before, bool has_behind);
  void CostUnit(int level, Unit& unit) const;
  // Returns the stream of unit `number` of a share. With BlocksAtOnce::kGrouped each unit has its
  // own stream.
  int StreamOf(int number) const {
    return setting_.blocks == BlocksAtOnce::kGrouped ? number : number % setting_.streams;
  }
  void BeginGraphs();
  // Returns the pending phase, so that the caller can add work for `level` to it. If the pending
  // phase belongs to another level, runs it and begins a phase of `level`.
  Phase& PhaseOf(int level);
  void RunPhase();
  // Makes each share of level `to` wait for the states that it reads from shares of level `from`.
  // count(writer, reader) returns the number of states that one share sends to another in one
  // message.
  template <typename Count>
  void SendStates(int from, int to, Port port, const Count& count);

  static constexpr int kNoLevel = -1;

  Cluster& cluster_;
  const planner::Device& device_;
  const LevelCosts& costs_;
  const MultigridSetting setting_;
  const double state_bytes_;
  const BlockRuns runs_;
  std::vector<std::vector<Share>> levels_;
  TaskList first_;
  int phase_level_ = kNoLevel;  // the level of `phase_`
  Phase phase_;
};

// Returns the block at which the run of each device begins, and the end. The runs are balanced by
// the cost of their blocks on one device alone. REQUIRES: 1 <= devices <= blocks of the finest
// level.
std::vector<int> BalancedBlocks(const LevelCosts& costs, double launch_us, int devices);

}  // namespace ucudnn::multigrid
