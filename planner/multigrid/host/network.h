// A network that runs forward and backward for one mini-batch. Its stages are solved by multigrid
// or serially, on the host or by NetworkSettings::stage_solvers. The sections between stages run
// serially on the host, in double precision. If there are several ranks, each has its own network
// with the parameters and states of its own layers, and all ranks must make and call their networks
// in the same order (peers.h). Results do not depend on the number of ranks, to the bit.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/distributed/stage_solver.h"
#include "planner/multigrid/host/placement.h"
#include "planner/multigrid/host/stage.h"
#include "planner/multigrid/residual_chain.h"
#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

class HostSolvers;
class ThreadRanks;

struct NetworkSettings : PlacementSetting {
  int batch = 1;
  int lanes = 1;  // number of threads
  // The step h of a stage of N steps is time / N, or `step` if `time` is 0.
  double time = 0;
  double step = 1;
  CoarseOperator coarse = CoarseOperator::kInject;
  Storage storage = Storage::kAll;
  SolveOptions forward;
  SolveOptions backward;
  // Makes the solvers of this rank's part of stages; if null, the host solves them. Must outlive
  // the network.
  StageSolvers* stage_solvers = nullptr;
  bool trains = false;  // whether Backward will be called
  // One rank of each replica: the rank that has the same layers as this rank. Null if there is one
  // replica. Must outlive the network. (`peers` are the ranks of this replica.)
  Peers* replicas = nullptr;
  // If set, forward solves on the host record the times of their lanes' steps.
  bool notes_timeline = false;

  // The ranks that have the network together; null if this rank has all of it. Must outlive the
  // network.
  Peers* peers = nullptr;
};

// The outcome of a solve of one stage in a forward or backward pass.
struct StageSolution {
  int steps = 0;
  int levels = 1;
  Solution solution;
  // The times of this rank's steps, if NetworkSettings::notes_timeline.
  std::optional<CycleTimeline> timeline = std::nullopt;
};

class NetworkSolver {
 public:
  // Makes the network. `chain` and `parameters` must outlive it. If the caller changes parameters
  // between passes, it must call ParametersChanged. An error names the settings or parameters that
  // do not fit. A stage whose coarsening leaves fewer than two coarse layers is solved serially;
  // Make fails if all stages are like this and `levels` is not 1.
  static Result<std::unique_ptr<NetworkSolver>> Make(const ResidualChain& chain,
                                                     const Parameters& parameters,
                                                     const NetworkSettings& settings);
  ~NetworkSolver();

  int64_t input_size() const;   // numbers in one image
  int64_t output_size() const;  // numbers in the logits of one image

  // After this call, passes with Start::kPrevious start from a broadcast, until Backward has run.
  // The caller must call ForgetStates before it passes another mini-batch than the last one.
  // Otherwise the change of the first state is added to all other states (BlockSystem::CarryOver).
  void ForgetStates() { knows_states_ = false; }

  // Computes the logits of `images`, [batch, input_size]. The logits are the input of the closing
  // softmax, or the output of the last node. Only the first rank reads `images`. Returns null
  // except on logits_rank().
  Result<const double*> Forward(const double* images);
  int logits_rank() const { return placement_.homes[logits_]; }
  // Adds the gradient with respect to this rank's parameters to `gradient`, which has the sizes of
  // the parameters. Only logits_rank() reads `logits_gradient`, [batch, output_size]. watch()
  // receives nodes when their gradients are complete, except nodes whose parameters solvers keep.
  // With kHosts, does not compute gradients of nodes whose parameters solvers keep. REQUIRES:
  // Forward was called for this mini-batch.
  enum class Gradients { kAll, kHosts };
  Status Backward(const double* logits_gradient, Parameters& gradient,
                  const GradientWatch& watch = nullptr, Gradients which = Gradients::kAll);

  // Must be called if the host has changed parameters since Make or the last pass.
  void ParametersChanged();
  // Returns whether a solver keeps the node's parameters where it computes
  // (StageSolver::keeps_weights). If so, Descend changes these parameters, and the host's copy is
  // as of the last ReadKept.
  bool KeepsParameters(planner::NodeId id) const { return is_kept_[id]; }
  // Moves the parameters that solvers keep along the gradient of the last Backward. REQUIRES: the
  // caller has changed all other parameters.
  Status Descend(const Descent& descent);
  Status ReadKept(Parameters& parameters);

  const Placement& placement() const { return placement_; }
  Peers& peers() { return *peers_; }

  // Return the solutions of the last passes, by stage. The solution of a stage is the same on rank
  // 0 and on all ranks that have layers of the stage. It is empty on other ranks.
  const std::vector<StageSolution>& forward_solutions() const { return forward_; }
  const std::vector<StageSolution>& backward_solutions() const { return backward_; }

 private:
  struct StageSolve;

  NetworkSolver(const ResidualChain& chain, const Parameters& parameters,
                const NetworkSettings& settings);
  Status MakeStages();
  Status MakeSections();
  Status PrepareNode(planner::NodeId id);
  // Sends a value from its home to rank `to`, unless `to` is its home.
  Status BringValue(planner::NodeId id, int to);
  // Adds part_ to the gradient with respect to a node's value. Rank `from` has part_; the home of
  // the value has the gradient.
  Status AddPart(planner::NodeId id, int from);
  Status RunNode(planner::NodeId id);
  Status RunNodeBackward(planner::NodeId id, int rank, Parameters& gradient);
  Status SolveForward(StageSolve& stage);
  Status SolveBackward(StageSolve& stage);
  Status AddGradients(StageSolve& stage, Parameters& gradient, const GradientWatch& watch,
                      Gradients which);
  LayerCall CallOf(planner::NodeId id);

  const ResidualChain& chain_;
  const Parameters& parameters_;
  NetworkSettings settings_;
  std::unique_ptr<ThreadRanks> alone_;  // used if the settings have no peers
  Peers* peers_ = nullptr;
  Placement placement_;
  std::unique_ptr<HostSolvers> host_solvers_;        // used if the settings have no solvers
  std::vector<std::unique_ptr<StageSolve>> stages_;  // in the order of the sections
  // By serial section: the values that the section reads and that are at home on another rank.
  std::vector<std::vector<planner::NodeId>> imports_;
  // By node: the values of this rank's serial sections, and the first and last values of its
  // stages.
  std::vector<std::vector<double>> values_;
  std::vector<std::vector<double>> gradients_;
  std::vector<HostLayer> layers_;
  std::vector<double> scratch_;
  std::vector<double> part_;  // one node's contribution to the gradient of its input
  planner::NodeId input_ = 0;
  planner::NodeId logits_ = 0;
  bool knows_states_ = false;
  std::vector<bool> is_kept_;  // by node
  std::vector<StageSolution> forward_;
  std::vector<StageSolution> backward_;
};

enum class Passes { kForward, kForwardAndBackward };
// Returns the bytes of the states of all levels on a rank of the host, in a network that runs
// `passes`. The first pass allocates these states.
int64_t StateBytes(const ResidualChain& chain, const Placement& placement,
                   const NetworkSettings& settings, int rank, Passes passes);
// Returns these bytes if one rank has the whole network; 0 if `settings` are refused.
int64_t StateBytes(const ResidualChain& chain, const NetworkSettings& settings, Passes passes);

// Draws the weights of every node of the chain from the seed `seed`. Weights of convolutions and
// fully connected layers are from N(0, 2 / inputs of one output) if an activation follows, else
// from N(0, 1 / inputs of one output); biases are 0 and scales 1. A node for which is_wanted() is
// false gets no weights; this does not change the weights of other nodes.
Parameters DrawParameters(const ResidualChain& chain, uint64_t seed,
                          const std::function<bool(planner::NodeId)>& is_wanted = nullptr);
// Returns the parameters of the nodes that `rank` owns.
Parameters ParametersOf(int rank, const Placement& placement, const Parameters& all);

// Returns the mean cross-entropy of softmax(logits), [batch, classes], against `labels`, and writes
// its gradient with respect to the logits to `gradient`.
double CrossEntropy(const double* logits, const std::vector<int>& labels, int64_t classes,
                    double* gradient);

}  // namespace ucudnn::multigrid
