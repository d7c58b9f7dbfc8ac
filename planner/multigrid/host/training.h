// Training a network on the host by stochastic gradient descent with momentum, with states and
// adjoints solved by multigrid or serially. On several ranks each trains its own layers; replicas
// of the network train on mini-batches of their own and sum their gradients, always in the same
// order. Thread-compatible; all ranks make and call trainers in the same order.
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

// Images as the network takes them, [count, features], with their labels.
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
  // Steps with a mini-batch before the next one's. With Start::kPrevious all but the first start
  // from the states and adjoints of the step before.
  int repeats = 1;
  int checked_every = 0;  // steps between those that are solved serially, too; 0: none is
  // By replica, the ranks that have this one's layers (network.peers are those of this replica);
  // null: there is one replica. Outlives the trainer.
  Peers* replicas = nullptr;
};

// The mean of the residuals at which solves ended, in the norm that they were asked for; NaN where
// none was solved by cycles.
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

// What a step's solves differ from serial propagation by: relative errors in L2.
struct CheckedStep {
  int step = 0;
  double output_error = 0;
  double gradient_error = 0;
};

// Solves are counted, and steps checked, of the rank's own replica.
struct EpochResult {
  double loss = 0;        // mean over the epoch's steps and all replicas
  double top1 = 0;        // of what Evaluate was given, in [0, 1]
  int solves = 0;         // of stages, both ways
  int64_t cycles = 0;     // of all solves
  int serial_solves = 0;  // of those, what did not converge and was solved serially
  int far_solves = 0;     // of those, what stopped early and is far away (IsFarAway)
  std::string fallback;   // why the first was solved serially
  ResidualMean forward_residual, backward_residual;
  std::vector<CheckedStep> checks;
};

class Trainer {
 public:
  // `chain` outlives the trainer; it begins with `parameters`, those of this rank.
  static Result<std::unique_ptr<Trainer>> Make(const ResidualChain& chain, Parameters parameters,
                                               const TrainingSettings& settings);

  // One pass over the examples in an order of its own, in whole mini-batches of all replicas: the
  // rest of them is left out. `before_step` sees the number of each step.
  Result<EpochResult> RunEpoch(const Examples& examples,
                               const std::function<void(int step)>& before_step);
  // How many steps RunEpoch takes.
  int StepsOf(const Examples& examples) const;
  // The share of examples whose largest logit is their label's, by the network's own solves.
  Result<double> Evaluate(const Examples& examples);

  // Waits for the devices that keep parameters, and returns all parameters of this rank.
  Result<const Parameters*> ReadParameters();
  const HostNetwork& network() const { return *network_; }

 private:
  Trainer(Parameters parameters, const TrainingSettings& settings)
      : settings_(settings), parameters_(std::move(parameters)), order_(settings.seed) {}
  // Fills images_ and labels_ with these examples.
  void Take(const Examples& examples, const int* chosen);
  int replica() const { return settings_.replicas == nullptr ? 0 : settings_.replicas->rank(); }
  int replicas() const { return settings_.replicas == nullptr ? 1 : settings_.replicas->size(); }
  bool has_logits() { return network_->peers().rank() == network_->logits_rank(); }
  Status Step(EpochResult& epoch);
  // The gradient, summed over replicas as it comes to be complete.
  Status RunBackward();
  Status FinishGradient();
  bool is_checked() const {
    return settings_.checked_every > 0 && step_ % settings_.checked_every == 0;
  }
  // The sum over replicas of a number that the rank with the logits has, on all ranks.
  Result<double> SumOfReplicas(double number);
  Result<CheckedStep> Check(const double* logits);
  // |a - b| / |b| over the parameters of all ranks of the network.
  Result<double> DistanceOnRanks(const Parameters& a, const Parameters& b);
  static void Count(const std::vector<StageSolution>& solutions, ResidualScale scale,
                    EpochResult& epoch, ResidualMean& residual);

  TrainingSettings settings_;
  Parameters parameters_;
  Parameters gradient_;
  Parameters velocity_;
  std::unique_ptr<HostNetwork> network_;
  std::unique_ptr<HostNetwork> serial_;  // the same parameters; null where nothing is checked
  std::optional<OrderedSum> sums_;       // of gradients, where there are replicas
  std::mt19937_64 order_;
  std::vector<double> images_;
  std::vector<int> labels_;
  std::vector<double> logits_gradient_;
  int step_ = 0;
};

}  // namespace ucudnn::multigrid
