// Trains a network by stochastic gradient descent with momentum. States and adjoints are solved by
// multigrid or serially. If there are several ranks, each trains its own layers. Replicas of the
// network train on their own mini-batches and sum their gradients, always in the same order.
// Thread-compatible; all ranks must make and call trainers in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/ordered_sum.h"
#include "planner/multigrid/host/network.h"

namespace ucudnn::multigrid {

// Images with the shape of the network's input, [count, features], and their labels.
struct Examples {
  std::vector<double> images;
  std::vector<int> labels;

  int count() const { return static_cast<int>(labels.size()); }
};

struct TrainingSettings {
  NetworkSettings network;
  double learning_rate = 0.05;
  double momentum = 0.9;
  uint64_t seed = 0;  // seed of the order of examples
  // The number of successive steps with the same mini-batch. With Start::kPrevious, each of these
  // steps but the first starts from the states and adjoints of the step before it.
  int repeats = 1;
  int checked_every = 0;  // one step in this many is also solved serially; 0: none
};

// The mean of the residuals with which solves ended, in the scale of their options. NaN if no solve
// had cycles.
class ResidualMean {
 public:
  void Add(double residual) {
    sum_ += residual;
    ++count_;
  }
  double value() const { return sum_ / count_; }

 private:
  double sum_ = 0;
  int count_ = 0;
};

// The differences of a step's solves from serial propagation, as relative errors in L2.
struct CheckedStep {
  int step = 0;
  double output_error = 0;
  double gradient_error = 0;
};

// The results of one epoch. Solves, cycles and checks are counted for this replica alone. A rank
// other than 0 knows only the cycles of solves of its own layers.
struct EpochResult {
  double loss = 0;        // mean over the epoch's steps and all replicas
  double top1 = 0;        // accuracy on Evaluate's examples, in [0, 1]
  int solves = 0;         // number of solves of stages, forward and backward
  int64_t cycles = 0;     // number of cycles of all solves
  int serial_solves = 0;  // solves that did not converge and were solved serially
  int far_solves = 0;     // solves that ended early and far from the solution (IsFarAway)
  std::string fallback;   // the reason of the first of serial_solves
  ResidualMean forward_residual, backward_residual;
  std::vector<CheckedStep> checks;
};

class Trainer {
 public:
  // `chain` must outlive the trainer. `parameters` are this rank's parameters at the beginning of
  // training.
  static Result<std::unique_ptr<Trainer>> Make(const ResidualChain& chain, Parameters parameters,
                                               const TrainingSettings& settings);

  // Trains on all examples once, in a random order and in whole mini-batches of all replicas; a
  // remainder is left out. Calls before_step() with the number of each step.
  Result<EpochResult> RunEpoch(const Examples& examples,
                               const std::function<void(int step)>& before_step);
  // Returns the number of steps that RunEpoch makes.
  int StepsOf(const Examples& examples) const;
  // Returns the share of examples whose label has the largest logit. The network is solved as in
  // training.
  Result<double> Evaluate(const Examples& examples);

  // Waits for the devices that keep parameters. Returns all parameters of this rank.
  Result<const Parameters*> ReadParameters();
  const NetworkSolver& network() const { return *network_; }

 private:
  Trainer(Parameters parameters, const TrainingSettings& settings)
      : settings_(settings), parameters_(std::move(parameters)), order_(settings.seed) {}
  // Copies the examples whose numbers are in `chosen` into images_ and labels_.
  void Take(const Examples& examples, const int* chosen);
  Peers* all_replicas() const { return settings_.network.replicas; }
  int replica() const { return all_replicas() == nullptr ? 0 : all_replicas()->rank(); }
  int replicas() const { return all_replicas() == nullptr ? 1 : all_replicas()->size(); }
  bool has_logits() { return network_->peers().rank() == network_->logits_rank(); }
  Status Step(EpochResult& epoch);
  // Computes the gradient. Sums over replicas begin as soon as parts of the gradient are complete.
  Status RunBackward();
  Status FinishGradient();
  bool is_checked() const {
    return settings_.checked_every > 0 && step_ % settings_.checked_every == 0;
  }
  // Returns the sum of `number` over all replicas, on all ranks. In each replica only the number of
  // the rank with the logits counts.
  Result<double> SumOfReplicas(double number);
  Result<CheckedStep> Check(const double* logits);
  // Returns |a - b| / |b|, over the parameters of all ranks of the network.
  Result<double> DistanceOnRanks(const Parameters& a, const Parameters& b);
  static void Count(const std::vector<StageSolution>& solutions, ResidualScale scale,
                    EpochResult& epoch, ResidualMean& residual);

  TrainingSettings settings_;
  Parameters parameters_;
  Parameters gradient_;
  Parameters velocity_;
  std::unique_ptr<NetworkSolver> network_;
  std::unique_ptr<NetworkSolver> serial_;  // has the same parameters; null if no step is checked
  std::optional<OrderedSum> sums_;         // sums gradients over replicas, if there are several
  std::mt19937_64 order_;
  std::vector<double> images_;
  std::vector<int> labels_;
  std::vector<double> logits_gradient_;
  int step_ = 0;
};

}  // namespace ucudnn::multigrid
