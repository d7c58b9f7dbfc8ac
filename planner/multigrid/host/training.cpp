#include "planner/multigrid/host/training.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ucudnn::multigrid {
namespace {

struct SquaredSums {
  double difference = 0;
  double reference = 0;

  void Add(const double* a, const double* b, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      reference += b[i] * b[i];
    }
  }
  double Relative() const {
    return difference == 0 ? 0 : std::sqrt(difference) / std::sqrt(reference);
  }
};

// velocity = momentum * velocity + gradient; number -= rate * velocity; the gradient is 0 again.
void Descend(std::vector<double>& numbers, std::vector<double>& velocity,
             std::vector<double>& gradient, const TrainingSettings& settings) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    velocity[i] = settings.momentum * velocity[i] + gradient[i];
    numbers[i] -= settings.learning_rate * velocity[i];
    gradient[i] = 0;
  }
}

}  // namespace

double RelativeDistance(const Parameters& a, const Parameters& b) {
  SquaredSums sums;
  for (size_t i = 0; i < a.size(); ++i) {
    sums.Add(a[i].weights.data(), b[i].weights.data(), a[i].weights.size());
    sums.Add(a[i].bias.data(), b[i].bias.data(), a[i].bias.size());
  }
  return sums.Relative();
}

Result<std::unique_ptr<Trainer>> Trainer::Make(const ResidualChain& chain, Parameters parameters,
                                               const TrainingSettings& settings) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(parameters), settings));
  UCUDNN_ASSIGN_OR_RETURN(trainer->network_,
                          HostNetwork::Make(chain, trainer->parameters_, settings.network));
  if (settings.checked_every > 0) {
    NetworkSettings serial = settings.network;
    serial.levels = 1;
    UCUDNN_ASSIGN_OR_RETURN(trainer->serial_,
                            HostNetwork::Make(chain, trainer->parameters_, serial));
  }
  trainer->gradient_ = ZerosLike(trainer->parameters_);
  trainer->velocity_ = ZerosLike(trainer->parameters_);
  const int batch = settings.network.batch;
  trainer->images_.resize(trainer->network_->input_size() * batch);
  trainer->logits_gradient_.resize(trainer->network_->output_size() * batch);
  trainer->labels_.resize(batch);
  return trainer;
}

void Trainer::Take(const Examples& examples, const int* chosen) {
  const int64_t features = network_->input_size();
  for (size_t i = 0; i < labels_.size(); ++i) {
    labels_[i] = examples.labels[chosen[i]];
    std::copy_n(examples.images.begin() + chosen[i] * features, features,
                images_.begin() + static_cast<int64_t>(i) * features);
  }
}

void Trainer::Count(const std::vector<StageSolution>& solutions, EpochResult& epoch) {
  for (const StageSolution& stage : solutions) {
    ++epoch.solves;
    epoch.cycles += stage.solution.cycles;
    if (stage.solution.fallback.empty()) continue;
    if (epoch.serial_solves++ == 0) epoch.fallback = stage.solution.fallback;
  }
}

Result<CheckedStep> Trainer::Check(const double* logits) {
  CheckedStep checked = {.step = step_};
  UCUDNN_ASSIGN_OR_RETURN(const double* serial_logits, serial_->Forward(images_.data()));
  SquaredSums output;
  output.Add(logits, serial_logits, logits_gradient_.size());
  checked.output_error = output.Relative();
  // Of serial's own loss, so that the whole error of the step is seen.
  std::vector<double> logits_gradient(logits_gradient_.size());
  CrossEntropy(serial_logits, labels_, serial_->output_size(), logits_gradient.data());
  Parameters gradient = ZerosLike(parameters_);
  UCUDNN_RETURN_IF_ERROR(serial_->Backward(logits_gradient.data(), gradient));
  checked.gradient_error = RelativeDistance(gradient_, gradient);
  return checked;
}

Status Trainer::Step(EpochResult& epoch) {
  UCUDNN_ASSIGN_OR_RETURN(const double* logits, network_->Forward(images_.data()));
  epoch.loss += CrossEntropy(logits, labels_, network_->output_size(), logits_gradient_.data());
  UCUDNN_RETURN_IF_ERROR(network_->Backward(logits_gradient_.data(), gradient_));
  network_->ForgetStates();
  Count(network_->forward_solutions(), epoch);
  Count(network_->backward_solutions(), epoch);
  if (settings_.checked_every > 0 && step_ % settings_.checked_every == 0) {
    UCUDNN_ASSIGN_OR_RETURN(CheckedStep checked, Check(logits));
    epoch.checks.push_back(checked);
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Descend(parameters_[i].weights, velocity_[i].weights, gradient_[i].weights, settings_);
    Descend(parameters_[i].bias, velocity_[i].bias, gradient_[i].bias, settings_);
  }
  ++step_;
  return Status::Ok();
}

Result<EpochResult> Trainer::RunEpoch(const Examples& examples,
                                      const std::function<void(int step)>& before_step) {
  const int batch = static_cast<int>(labels_.size());
  if (examples.count() < batch) {
    return Status::Error(std::to_string(examples.count()) + " examples for mini-batches of " +
                         std::to_string(batch) + "; at least as many are expected");
  }
  std::vector<int> order(examples.count());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), order_);
  EpochResult epoch;
  const int steps = examples.count() / batch;
  for (int step = 0; step < steps; ++step) {
    before_step(step);
    Take(examples, order.data() + step * batch);
    UCUDNN_RETURN_IF_ERROR(Step(epoch));
  }
  epoch.loss /= steps;
  return epoch;
}

Result<double> Trainer::Evaluate(const Examples& examples) {
  const int batch = static_cast<int>(labels_.size());
  const int64_t classes = network_->output_size();
  int right = 0;
  for (int begin = 0; begin < examples.count(); begin += batch) {
    // The last mini-batch is filled up by the last example, which counts once.
    std::vector<int> chosen(batch);
    for (int i = 0; i < batch; ++i) chosen[i] = std::min(begin + i, examples.count() - 1);
    Take(examples, chosen.data());
    UCUDNN_ASSIGN_OR_RETURN(const double* logits, network_->Forward(images_.data()));
    network_->ForgetStates();
    for (int i = 0; i < std::min(batch, examples.count() - begin); ++i) {
      const double* const of_image = logits + i * classes;
      right += std::max_element(of_image, of_image + classes) - of_image == labels_[i] ? 1 : 0;
    }
  }
  return static_cast<double>(right) / examples.count();
}

}  // namespace ucudnn::multigrid
