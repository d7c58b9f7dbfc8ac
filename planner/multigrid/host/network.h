// A network with its numbers on the host, in double precision: its stages are solved by multigrid
// or serially, the sections between them run serially. Forward and backward for one mini-batch.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/host/propagators.h"
#include "planner/multigrid/host/stage.h"
#include "planner/multigrid/residual_chain.h"
#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

class StageSolvers;

struct NetworkSettings {
  int batch = 1;
  int lanes = 1;  // threads
  // A stage of N steps has h = time / N; where `time` is 0, h = step.
  double time = 0;
  double step = 1;
  std::vector<int> coarsening = {4};
  int levels = 0;  // as Hierarchy::Make has it; 1 is serial propagation
  CoarseOperator coarse = CoarseOperator::kInject;
  Storage storage = Storage::kAll;
  SolveOptions forward;
  SolveOptions backward;
  // Who solves stages forward: null is the host. Those of others go no way back. Outlives the
  // network.
  StageSolvers* stage_solvers = nullptr;
};

// What solves one stage forward elsewhere than on the host.
class StageSolver {
 public:
  virtual ~StageSolver() = default;
  // From the first state to the last one, both of all images, [batch, C, H, W].
  virtual Result<Solution> Solve(const std::vector<double>& first, const SolveOptions& options,
                                 std::vector<double>& last) = 0;
};

// A stage as its solver is made for it. All outlive the solver.
struct StageToSolve {
  const ResidualChain& chain;
  const Stage& stage;
  const Parameters& parameters;
  const Hierarchy& hierarchy;
  const NetworkSettings& settings;
  double h = 1;
};

class StageSolvers {
 public:
  virtual ~StageSolvers() = default;
  virtual Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage) = 0;
};

// What the solves of one forward or backward pass came to, one for each stage.
struct StageSolution {
  int steps = 0;
  int levels = 1;
  Solution solution;
};

class HostNetwork {
 public:
  // `chain` and `parameters` outlive the network; the parameters may be changed between passes. An
  // error names what does not fit. A stage that the coarsening leaves fewer than two coarse layers
  // is solved serially; where all are like that and `levels` is not 1, that is the error.
  static Result<std::unique_ptr<HostNetwork>> Make(const ResidualChain& chain,
                                                   const Parameters& parameters,
                                                   const NetworkSettings& settings);
  ~HostNetwork();

  int64_t input_size() const;   // numbers of one image
  int64_t output_size() const;  // numbers of one image's logits

  // Whether solves that start from the states as they are (Start::kPrevious) may: false makes the
  // next pass start from a broadcast. The caller says it of a mini-batch that it has not just run.
  void ForgetStates() { knows_states_ = false; }

  // The logits of `images`, [batch, input_size]: what goes into the closing softmax, or what the
  // last node gives.
  Result<const double*> Forward(const double* images);
  // Adds the gradient by all parameters to `gradient`, which has their sizes, from that by the
  // logits, [batch, output_size]. REQUIRES: Forward, by the host's own solvers.
  Status Backward(const double* logits_gradient, Parameters& gradient);

  // Of the last passes.
  const std::vector<StageSolution>& forward_solutions() const { return forward_; }
  const std::vector<StageSolution>& backward_solutions() const { return backward_; }
  // Bytes of the states of all levels, of one way: forward or backward.
  int64_t state_bytes() const;

 private:
  struct StageSolve;

  HostNetwork(const ResidualChain& chain, const Parameters& parameters,
              const NetworkSettings& settings);
  Status MakeStages();
  Status MakeSections();
  Status RunNode(planner::NodeId id);
  Status RunNodeBackward(planner::NodeId id, Parameters& gradient);
  Status SolveForward(StageSolve& stage);
  Result<Solution> SolveOnHost(StageSolve& stage, const SolveOptions& options);
  Status SolveBackward(StageSolve& stage, Parameters& gradient);
  LayerCall CallOf(planner::NodeId id);

  const ResidualChain& chain_;
  const Parameters& parameters_;
  NetworkSettings settings_;
  std::unique_ptr<Lanes> lanes_;
  std::vector<std::unique_ptr<StageSolve>> stages_;  // in order of the sections
  // By node, of those in serial sections and the last sums of stages.
  std::vector<std::vector<double>> values_;
  std::vector<std::vector<double>> gradients_;
  std::vector<HostLayer> layers_;
  std::vector<double> scratch_;
  std::vector<double> part_;  // a node's contribution to the gradient of its input
  planner::NodeId input_ = 0;
  planner::NodeId logits_ = 0;
  bool knows_states_ = false;
  std::vector<StageSolution> forward_;
  std::vector<StageSolution> backward_;
};

// Weights of every node of the chain, drawn by `seed`: of convolutions and fully connected layers
// from N(0, 2 / inputs of one output) in front of an activation, N(0, 1 / inputs) else; biases 0;
// scales 1.
Parameters DrawParameters(const ResidualChain& chain, uint64_t seed);
// As many zeros.
Parameters ZerosLike(const Parameters& parameters);

// The mean cross-entropy of softmax(logits), [batch, classes], against `labels`; writes its
// gradient by the logits.
double CrossEntropy(const double* logits, const std::vector<int>& labels, int64_t classes,
                    double* gradient);

}  // namespace ucudnn::multigrid
