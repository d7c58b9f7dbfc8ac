// A network with its numbers on the host, in double precision: its stages are solved by multigrid
// or serially, the sections between them run serially. Forward and backward for one mini-batch. On
// several ranks each has a network of its own, with the parameters and states of its layers alone;
// all make and call them in the same order (peers.h), and results do not depend on their number, to
// the bit. Thread-compatible.
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
  int lanes = 1;  // threads
  // A stage of N steps has h = time / N; where `time` is 0, h = step.
  double time = 0;
  double step = 1;
  CoarseOperator coarse = CoarseOperator::kInject;
  Storage storage = Storage::kAll;
  SolveOptions forward;
  SolveOptions backward;
  // Who solves this rank's part of stages: null is the host. Outlives the network.
  StageSolvers* stage_solvers = nullptr;
  bool trains = false;        // Backward will be called
  Peers* replicas = nullptr;  // as StageToSolve has them
  // Whether forward solves by cycles on the host say when their lanes ran which steps.
  bool notes_timeline = false;

  // The ranks that have the network together; null: this one alone. Outlives the network.
  Peers* peers = nullptr;
};

// What the solves of one forward or backward pass came to, one for each stage.
struct StageSolution {
  int steps = 0;
  int levels = 1;
  Solution solution;
  // Of this rank's layers, where the settings ask for it.
  std::optional<CycleTimeline> timeline = std::nullopt;
};

class HostNetwork {
 public:
  // `chain` and `parameters` outlive the network; the parameters may be changed between passes, of
  // which ParametersChanged tells. An error names what does not fit. A stage that the coarsening
  // leaves fewer than two coarse layers is solved serially; where all are like that and `levels` is
  // not 1, that is the error.
  static Result<std::unique_ptr<HostNetwork>> Make(const ResidualChain& chain,
                                                   const Parameters& parameters,
                                                   const NetworkSettings& settings);
  ~HostNetwork();

  int64_t input_size() const;   // numbers of one image
  int64_t output_size() const;  // numbers of one image's logits

  // Makes the next pass start from a broadcast where it would start from the states as they are
  // (Start::kPrevious): the caller says it of a mini-batch that it has not just run. Of one that it
  // has, what the first states changed by is added to all others (BlockSystem::CarryOver).
  void ForgetStates() { knows_states_ = false; }

  // The logits of `images`, [batch, input_size]: what goes into the closing softmax, or what the
  // last node gives. Images are read on the first rank, and only logits_rank() has logits; others'
  // are null.
  Result<const double*> Forward(const double* images);
  int logits_rank() const { return placement_.homes[logits_]; }
  // Adds the gradient by this rank's parameters to `gradient`, which has their sizes, from that by
  // the logits, [batch, output_size], which logits_rank() reads. REQUIRES: Forward.
  // `watch` is told of nodes as their gradients come to be complete, but for those that solvers
  // keep, which kHosts leaves out.
  enum class Gradients { kAll, kHosts };
  Status Backward(const double* logits_gradient, Parameters& gradient,
                  const GradientWatch& watch = nullptr, Gradients which = Gradients::kAll);

  // The host has changed the parameters since Make or the last pass: all of them.
  void ParametersChanged();
  // Whether a solver keeps the node's parameters where it computes (StageSolver::keeps_weights):
  // then Descend changes them, and the host has those of the last ReadKept.
  bool KeepsParameters(planner::NodeId id) const { return is_kept_[id]; }
  // The parameters have descended along the gradient of the last Backward: here those that solvers
  // keep, by the caller all others.
  Status Descend(const Descent& descent);
  Status ReadKept(Parameters& parameters);

  const Placement& placement() const { return placement_; }
  Peers& peers() { return *peers_; }

  // Of the last passes, the same on all ranks.
  const std::vector<StageSolution>& forward_solutions() const { return forward_; }
  const std::vector<StageSolution>& backward_solutions() const { return backward_; }

 private:
  struct StageSolve;

  HostNetwork(const ResidualChain& chain, const Parameters& parameters,
              const NetworkSettings& settings);
  Status MakeStages();
  Status MakeSections();
  Status PrepareNode(planner::NodeId id);
  // Brings a value to a rank, where it is another's.
  Status BringValue(planner::NodeId id, int to);
  // Adds part_, which rank `from` has, to the gradient by a node's value, where that is.
  Status AddPart(planner::NodeId id, int from);
  Status RunNode(planner::NodeId id);
  Status RunNodeBackward(planner::NodeId id, int rank, Parameters& gradient);
  Status SolveForward(StageSolve& stage);
  Status SolveBackward(StageSolve& stage);
  Status AddGradients(StageSolve& stage, Parameters& gradient, const GradientWatch& watch,
                      Gradients which);
  // Tells the ranks that have none of the stage's layers what its solve came to.
  Result<Solution> ShareSolution(const StageSolve& stage, Solution solution);
  LayerCall CallOf(planner::NodeId id);

  const ResidualChain& chain_;
  const Parameters& parameters_;
  NetworkSettings settings_;
  std::unique_ptr<ThreadRanks> alone_;  // where the settings have no peers
  Peers* peers_ = nullptr;
  Placement placement_;
  std::unique_ptr<HostSolvers> host_solvers_;        // where the settings have none
  std::vector<std::unique_ptr<StageSolve>> stages_;  // in order of the sections
  // By section, of serial ones: values that it reads and another rank has.
  std::vector<std::vector<planner::NodeId>> imports_;
  // By node, of those in this rank's serial sections and the first and last values of its stages.
  std::vector<std::vector<double>> values_;
  std::vector<std::vector<double>> gradients_;
  std::vector<HostLayer> layers_;
  std::vector<double> scratch_;
  std::vector<double> part_;  // a node's contribution to the gradient of its input
  planner::NodeId input_ = 0;
  planner::NodeId logits_ = 0;
  bool knows_states_ = false;
  std::vector<bool> is_kept_;  // by node
  std::vector<StageSolution> forward_;
  std::vector<StageSolution> backward_;
};

enum class Passes { kForward, kForwardAndBackward };
// Bytes of the states of all levels that a network on one rank of the host keeps for such passes:
// what it allocates at the first one. 0 where `settings` make no levels.
int64_t StateBytes(const ResidualChain& chain, const NetworkSettings& settings, Passes passes);

// Weights of every node of the chain, drawn by `seed`: of convolutions and fully connected layers
// from N(0, 2 / inputs of one output) in front of an activation, N(0, 1 / inputs) else; biases 0;
// scales 1. Where `is_wanted` is false a node has none, and those of others are the same.
Parameters DrawParameters(const ResidualChain& chain, uint64_t seed,
                          const std::function<bool(planner::NodeId)>& is_wanted = nullptr);
// Those of one rank's nodes.
Parameters ParametersOf(int rank, const Placement& placement, const Parameters& all);

// The mean cross-entropy of softmax(logits), [batch, classes], against `labels`; writes its
// gradient by the logits.
double CrossEntropy(const double* logits, const std::vector<int>& labels, int64_t classes,
                    double* gradient);

}  // namespace ucudnn::multigrid
