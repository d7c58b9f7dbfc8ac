#include "planner/multigrid/host/training.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ucudnn::multigrid {
namespace {

// Sums of squares over one node or several nodes.
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

SquaredSums SumsOf(const NodeWeights& a, const NodeWeights& b) {
  SquaredSums sums;
  sums.Add(a.weights.data(), b.weights.data(), a.weights.size());
  sums.Add(a.bias.data(), b.bias.data(), a.bias.size());
  return sums;
}

// Moves `numbers` along `gradient`, and sets the gradient to 0.
void DescendAlong(std::vector<double>& numbers, std::vector<double>& velocity,
                  std::vector<double>& gradient, const Descent& descent) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    velocity[i] = descent.momentum * velocity[i] + gradient[i];
    numbers[i] -= descent.rate * velocity[i];
    gradient[i] = 0;
  }
}

}  // namespace

// Each rank sends the sums of its own nodes, and every rank adds all sums in the order of the
// nodes.
Result<double> Trainer::DistanceOnRanks(const Parameters& a, const Parameters& b) {
  std::vector<double> mine;
  for (size_t i = 0; i < a.size(); ++i) {
    const SquaredSums node = SumsOf(a[i], b[i]);
    mine.push_back(node.difference);
    mine.push_back(node.reference);
  }
  Peers& peers = network_->peers();
  UCUDNN_ASSIGN_OR_RETURN(const auto of_ranks, GatherNumbers(peers, peers.size(), mine));
  SquaredSums sums;
  const std::vector<int>& owners = network_->placement().owners;
  for (size_t i = 0; i < a.size(); ++i) {
    sums.difference += of_ranks[owners[i]][2 * i];
    sums.reference += of_ranks[owners[i]][2 * i + 1];
  }
  return sums.Relative();
}

Result<std::unique_ptr<Trainer>> Trainer::Make(const ResidualChain& chain, Parameters parameters,
                                               const TrainingSettings& settings) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(parameters), settings));
  NetworkSettings network = settings.network;
  network.trains = true;
  UCUDNN_ASSIGN_OR_RETURN(trainer->network_,
                          NetworkSolver::Make(chain, trainer->parameters_, network));
  if (settings.checked_every > 0) {
    NetworkSettings serial = network;
    serial.method = Method::kPartitioned;
    serial.replicas = nullptr;
    UCUDNN_ASSIGN_OR_RETURN(trainer->serial_,
                            NetworkSolver::Make(chain, trainer->parameters_, serial));
  }
  if (network.replicas != nullptr) trainer->sums_.emplace(*network.replicas);
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

void Trainer::Count(const std::vector<StageSolution>& solutions, ResidualScale scale,
                    EpochResult& epoch, ResidualMean& residual) {
  for (const StageSolution& stage : solutions) {
    const Solution& solution = stage.solution;
    ++epoch.solves;
    epoch.cycles += solution.cycles;
    if (IsFarAway(solution, scale)) ++epoch.far_solves;
    if (solution.outcome != Outcome::kSerial) residual.Add(solution.residuals.back());
    if (solution.fallback.empty()) continue;
    if (epoch.serial_solves++ == 0) epoch.fallback = solution.fallback;
  }
}

Result<CheckedStep> Trainer::Check(const double* logits) {
  CheckedStep checked = {.step = step_};
  UCUDNN_RETURN_IF_ERROR(network_->ReadKept(parameters_));
  serial_->ParametersChanged();
  UCUDNN_ASSIGN_OR_RETURN(const double* serial_logits, serial_->Forward(images_.data()));
  // Backward starts from the gradient of the serial network's loss, so that the error of the
  // gradient includes the errors of both solves.
  std::vector<double> logits_gradient(logits_gradient_.size());
  if (has_logits()) {
    SquaredSums output;
    output.Add(logits, serial_logits, logits_gradient_.size());
    checked.output_error = output.Relative();
    CrossEntropy(serial_logits, labels_, serial_->output_size(), logits_gradient.data());
  }
  UCUDNN_RETURN_IF_ERROR(
      ShareNumber(network_->peers(), network_->logits_rank(), checked.output_error));
  Parameters gradient = ZerosLike(parameters_);
  UCUDNN_RETURN_IF_ERROR(serial_->Backward(logits_gradient.data(), gradient));
  UCUDNN_ASSIGN_OR_RETURN(checked.gradient_error, DistanceOnRanks(gradient_, gradient));
  return checked;
}

Status Trainer::RunBackward() {
  using Gradients = NetworkSolver::Gradients;
  GradientWatch watch;
  if (sums_) {
    watch = [this](const std::vector<planner::NodeId>& nodes) {
      std::vector<std::span<double>> parts;
      for (const planner::NodeId id : nodes) {
        parts.emplace_back(gradient_[id].weights);
        parts.emplace_back(gradient_[id].bias);
      }
      return sums_->Begin(std::move(parts));
    };
  }
  return network_->Backward(logits_gradient_.data(), gradient_, watch,
                            is_checked() ? Gradients::kAll : Gradients::kHosts);
}

// Divides the sums over replicas by the number of replicas, because each replica's gradient is the
// mean over its own mini-batch.
Status Trainer::FinishGradient() {
  if (!sums_) return Status::Ok();
  UCUDNN_RETURN_IF_ERROR(sums_->Finish());
  for (NodeWeights& node : gradient_) {
    for (double& number : node.weights) number /= replicas();
    for (double& number : node.bias) number /= replicas();
  }
  return Status::Ok();
}

Status Trainer::Step(EpochResult& epoch) {
  UCUDNN_ASSIGN_OR_RETURN(const double* logits, network_->Forward(images_.data()));
  if (has_logits()) {
    epoch.loss += CrossEntropy(logits, labels_, network_->output_size(), logits_gradient_.data());
  }
  UCUDNN_RETURN_IF_ERROR(RunBackward());
  const NetworkSettings& solves = settings_.network;
  Count(network_->forward_solutions(), solves.forward.scale, epoch, epoch.forward_residual);
  Count(network_->backward_solutions(), solves.backward.scale, epoch, epoch.backward_residual);
  if (is_checked()) {
    UCUDNN_ASSIGN_OR_RETURN(CheckedStep checked, Check(logits));
    epoch.checks.push_back(checked);
  }
  UCUDNN_RETURN_IF_ERROR(FinishGradient());
  const Descent descent = {settings_.learning_rate, settings_.momentum};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    NodeWeights& gradient = gradient_[i];
    if (network_->KeepsParameters(static_cast<planner::NodeId>(i))) {
      if (is_checked()) gradient = ZerosLike({gradient}).front();
      continue;
    }
    DescendAlong(parameters_[i].weights, velocity_[i].weights, gradient.weights, descent);
    DescendAlong(parameters_[i].bias, velocity_[i].bias, gradient.bias, descent);
  }
  UCUDNN_RETURN_IF_ERROR(network_->Descend(descent));
  ++step_;
  return Status::Ok();
}

Result<const Parameters*> Trainer::ReadParameters() {
  UCUDNN_RETURN_IF_ERROR(network_->ReadKept(parameters_));
  return static_cast<const Parameters*>(&parameters_);
}

Result<double> Trainer::SumOfReplicas(double number) {
  UCUDNN_RETURN_IF_ERROR(ShareNumber(network_->peers(), network_->logits_rank(), number));
  if (all_replicas() == nullptr) return number;
  UCUDNN_ASSIGN_OR_RETURN(const auto all, GatherNumbers(*all_replicas(), replicas(), {{number}}));
  double sum = 0;
  for (const auto& one : all) sum += one.front();
  return sum;
}

Result<EpochResult> Trainer::RunEpoch(const Examples& examples,
                                      const std::function<void(int step)>& before_step) {
  const int batch = static_cast<int>(labels_.size());
  const int together = batch * replicas();
  if (examples.count() < together) {
    return Status::Error(std::to_string(examples.count()) + " examples for mini-batches of " +
                         std::to_string(together) + "; at least as many are expected");
  }
  std::vector<int> order(examples.count());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), order_);
  EpochResult epoch;
  const int steps = StepsOf(examples);
  for (int step = 0; step < steps; ++step) {
    before_step(step);
    if (step % settings_.repeats == 0) {
      const int mini_batch = step / settings_.repeats;
      Take(examples, order.data() + mini_batch * together + replica() * batch);
      network_->ForgetStates();
    }
    UCUDNN_RETURN_IF_ERROR(Step(epoch));
  }
  UCUDNN_ASSIGN_OR_RETURN(epoch.loss, SumOfReplicas(epoch.loss));
  epoch.loss /= static_cast<double>(steps) * replicas();
  return epoch;
}

int Trainer::StepsOf(const Examples& examples) const {
  const int together = static_cast<int>(labels_.size()) * replicas();
  return examples.count() / together * settings_.repeats;
}

Result<double> Trainer::Evaluate(const Examples& examples) {
  const int batch = static_cast<int>(labels_.size());
  const int64_t classes = network_->output_size();
  int right = 0;
  for (int begin = replica() * batch; begin < examples.count(); begin += batch * replicas()) {
    // Copies of the last example fill the last mini-batch, but are not counted.
    std::vector<int> chosen(batch);
    for (int i = 0; i < batch; ++i) chosen[i] = std::min(begin + i, examples.count() - 1);
    Take(examples, chosen.data());
    network_->ForgetStates();
    UCUDNN_ASSIGN_OR_RETURN(const double* logits, network_->Forward(images_.data()));
    if (!has_logits()) continue;
    for (int i = 0; i < std::min(batch, examples.count() - begin); ++i) {
      const double* const of_image = logits + i * classes;
      right += std::max_element(of_image, of_image + classes) - of_image == labels_[i] ? 1 : 0;
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(const double of_all, SumOfReplicas(right));
  return of_all / examples.count();
}

}  // namespace ucudnn::multigrid
