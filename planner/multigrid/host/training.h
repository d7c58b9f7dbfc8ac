// Trains a network by stochastic gradient descent with momentum, with states and adjoints solved by
// multigrid or serially. If there are several ranks, each trains its own layers. Replicas of the
// network train on their own mini-batches and sum their gradients, always in the same order.
// Thread-compatible; all ranks make and call trainers in the same order.
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

// Images in the shape of the network's input, [count, features], with their labels.
struct Examples {
  std::vector<double> images;
  std::vector<int> labels;

  int count() const { return static_cast<int>(labels.size()); }
};

struct TrainingSettings {
  NetworkSettings network;
  double learning_rate = 0.05;
  double momentum = 0.9;
  uint64_t seed = 0;  // of the order of examples
  // Steps with one mini-batch before the next one comes. With Start::kPrevious, all of them but the
  // first start from the states and adjoints of the step before.
  int repeats = 1;
  int checked_every = 0;  // one step in so many is also solved serially; 0: none
};

// The mean of the residuals at which solves ended, in the scale of their options. NaN if no solve
// used cycles.
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

// How much a step's solves differ from serial propagation: relative errors in L2.
struct CheckedStep {
  int step = 0;
  double output_error = 0;
  double gradient_error = 0;
};

// Solves and checked steps are counted for this rank's replica only.
struct EpochResult {
  double loss = 0;        // mean over the epoch's steps and all replicas
  double top1 = 0;        // of Evaluate's examples, in [0, 1]
  int solves = 0;         // of stages, forward and backward
  int64_t cycles = 0;     // of all solves
  int serial_solves = 0;  // solves that did not converge and were solved serially
  int far_solves = 0;     // solves that stopped early and are far away (IsFarAway)
  std::string fallback;   // why the first of serial_solves was solved serially
  ResidualMean forward_residual, backward_residual;
  std::vector<CheckedStep> checks;
};

class Trainer {
 public:
  // `chain` outlives the trainer. Training begins with `parameters`, the parameters of this rank.
  static Result<std::unique_ptr<Trainer>> Make(const ResidualChain& chain, Parameters parameters,
                                               const TrainingSettings& settings);

  // Runs through the examples once, in a random order and in whole mini-batches of all replicas; a
  // remainder is left out. Calls `before_step` with the number of each step.
  Result<EpochResult> RunEpoch(const Examples& examples,
                               const std::function<void(int step)>& before_step);
  // Returns how many steps RunEpoch takes.
  int StepsOf(const Examples& examples) const;
  // Returns the share of examples whose label has the largest logit. The network solves as in
  // training.
  Result<double> Evaluate(const Examples& examples);

  // Waits for the devices that keep parameters, and returns all parameters of this rank.
  Result<const Parameters*> ReadParameters();
  const HostNetwork& network() const { return *network_; }

 private:
  Trainer(Parameters parameters, const TrainingSettings& settings)
      : settings_(settings), parameters_(std::move(parameters)), order_(settings.seed) {}
  // Copies the examples numbered `chosen` into images_ and labels_.
  void Take(const Examples& examples, const int* chosen);
  Peers* all_replicas() const { return settings_.network.replicas; }
  int replica() const { return all_replicas() == nullptr ? 0 : all_replicas()->rank(); }
  int replicas() const { return all_replicas() == nullptr ? 1 : all_replicas()->size(); }
  bool has_logits() { return network_->peers().rank() == network_->logits_rank(); }
  Status Step(EpochResult& epoch);
  // Computes the gradient. Sums over replicas begin as soon as parts of it are complete.
  Status RunBackward();
  Status FinishGradient();
  bool is_checked() const {
    return settings_.checked_every > 0 && step_ % settings_.checked_every == 0;
  }
  // Returns the sum over replicas of `number` on the rank that has the logits. All ranks get it.
  Result<double> SumOfReplicas(double number);
  Result<CheckedStep> Check(const double* logits);
  // Returns |a - b| / |b| over the parameters of all ranks of the network.
  Result<double> DistanceOnRanks(const Parameters& a, const Parameters& b);
  static void Count(const std::vector<StageSolution>& solutions, ResidualScale scale,
                    EpochResult& epoch, ResidualMean& residual);

  TrainingSettings settings_;
  Parameters parameters_;
  Parameters gradient_;
  Parameters velocity_;
  std::unique_ptr<HostNetwork> network_;
  std::unique_ptr<HostNetwork> serial_;  // with the same parameters; null if no step is checked
  std::optional<OrderedSum> sums_;       // sums gradients if there are replicas
  std::mt19937_64 order_;
  std::vector<double> images_;
  std::vector<int> labels_;
  std::vector<double> logits_gradient_;
  int step_ = 0;
};

}  // namespace ucudnn::multigrid
