#include "unit/planner/multigrid/plain_chain.h"

#include <algorithm>
#include <cmath>

#include "tests/support/must.h"

namespace ucudnn::multigrid {

std::vector<double> DrawnNumbers(size_t count, double deviation, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, deviation);
  std::vector<double> numbers(count);
  for (double& number : numbers) number = normal(random);
  return numbers;
}

ResidualChain ChainOfSteps(const planner::Input& images,
                           const std::vector<std::vector<planner::Operator>>& steps) {
  planner::GraphBuilder builder("steps");
  Stage stage = {.input = builder.Add("data", images, {})};
  planner::NodeId last = stage.input;
  for (const std::vector<planner::Operator>& operators : steps) {
    const std::string name = "step" + std::to_string(stage.steps.size());
    ResidualStep step;
    planner::NodeId inside = last;
    for (const planner::Operator& op : operators) {
      inside = builder.Add(name + "." + std::to_string(step.transformation.size()), op, {inside});
      step.transformation.push_back(inside);
    }
    step.sum = last = builder.Add(name + ".add", planner::Add{}, {inside, last});
    stage.steps.push_back(std::move(step));
  }
  ResidualChain chain;
  chain.graph = test::Must(builder.Build());
  chain.shapes = test::Must(planner::InferShapes(chain.graph, 1));
  stage.shape = chain.shapes[stage.input];
  chain.sections.emplace_back(std::move(stage));
  return chain;
}

ResidualChain PlainChain(const ChainShape& shape) {
  const int pad = shape.window / 2;
  const planner::Convolution convolution = {
      .filters = shape.channels, .window = {1, shape.window, shape.window}, .pad = {0, pad, pad}};
  const std::vector<planner::Operator> step = {convolution, planner::Activation{shape.activation}};
  return ChainOfSteps({shape.channels, {1, shape.extent, shape.extent}, 2},
                      std::vector(static_cast<size_t>(shape.steps), step));
}

void WeightedChain::SetSteps(const std::vector<double>& weights, const std::vector<double>& bias) {
  parameters.resize(chain.graph.nodes.size());
  const auto steps = static_cast<int64_t>(stage().steps.size());
  const auto part = [&](const std::vector<double>& all, int64_t number) {
    const int64_t width = static_cast<int64_t>(all.size()) / steps;
    return std::vector(all.begin() + number * width, all.begin() + (number + 1) * width);
  };
  for (int number = 0; number < steps; ++number) {
    step(number) = {part(weights, number), part(bias, number)};
  }
}

std::vector<double> Interpolated(const std::vector<double>& knots, int width, int steps) {
  const int count = static_cast<int>(knots.size()) / width;
  const double distance = 1.0 / (count - 1);
  std::vector<double> all;
  for (int i = 0; i < steps; ++i) {
    const double x = i + 1 == steps ? 1 : i * (1.0 / (steps - 1));
    int knot = 0;
    while (knot + 2 < count && (knot + 1) * distance <= x) ++knot;
    const double begin = knot * distance;
    const double end = knot + 2 == count ? 1 : (knot + 1) * distance;
    for (int j = 0; j < width; ++j) {
      const double from = knots[knot * width + j];
      const double to = knots[(knot + 1) * width + j];
      all.push_back(i + 1 == steps ? to : (to - from) / (end - begin) * (x - begin) + from);
    }
  }
  return all;
}

WeightedChain DrawnChain(const ChainShape& shape, std::mt19937_64& random, double gain,
                         std::optional<int> knots, int batch) {
  WeightedChain made = {.chain = PlainChain(shape), .batch = batch};
  const int taps = shape.window * shape.window * shape.channels;
  const int width = shape.channels * taps;
  const int rows = knots.value_or(shape.steps);
  std::vector<double> weights =
      DrawnNumbers(static_cast<size_t>(rows) * width, gain * std::sqrt(2.0 / taps), random);
  std::vector<double> bias = DrawnNumbers(static_cast<size_t>(rows) * shape.channels, 0.1, random);
  if (knots) {
    weights = Interpolated(weights, width, shape.steps);
    bias = Interpolated(bias, shape.channels, shape.steps);
  }
  made.SetSteps(weights, bias);
  made.first = DrawnNumbers(static_cast<size_t>(made.stage().shape.Features()) * batch, 1, random);
  return made;
}

DrawnCase DrawCase(uint64_t seed, const ChainShape& shape, int batch, double gain) {
  std::mt19937_64 random(seed);
  DrawnCase drawn = {.chain = DrawnChain(shape, random, gain, std::nullopt, batch)};
  drawn.last = DrawnNumbers(drawn.chain.first.size(), 1, random);
  return drawn;
}

HostSolve::HostSolve(const WeightedChain& chain, const SolveSetting& setting)
    : chain_(chain), h_(setting.h) {
  const int steps = static_cast<int>(chain.stage().steps.size());
  hierarchy_ = test::Must(Hierarchy::Make(steps, setting.coarsening, setting.levels));
  mirrored_ = hierarchy_.Mirrored();
  lanes_.emplace(test::Must(Lanes::Start(setting.lanes)));
  stage_.emplace(test::Must(
      HostStage::Make(chain.chain, chain.stage(), chain.parameters, chain.batch, setting.lanes)));
  propagator_ = std::make_unique<HostChain>(*stage_, hierarchy_, setting.coarse, setting.h);
  const multigrid::State first = test::Must(propagator_->Create());
  std::copy(chain.first.begin(), chain.first.end(), HostChain::Numbers(first));
  system_.emplace(
      test::Must(BlockSystem::Make(*propagator_, hierarchy_, *lanes_, setting.storage, first)));
}

std::vector<double> HostSolve::Copy(multigrid::State state) const {
  const double* const numbers = HostChain::Numbers(state);
  return {numbers, numbers + stage_->state_size()};
}

std::vector<double> HostSolve::State(int number) {
  Trajectory states = test::Must(Trajectory::Make(*system_, hierarchy_, *propagator_, 1));
  return Copy(test::Must(states.At(number, 0)));
}

std::vector<std::vector<double>> HostSolve::Serial() {
  std::vector<std::vector<double>> states = {chain_.first};
  for (int i = 0; i < stage_->steps(); ++i) {
    std::vector<double> next = states.back();
    stage_->AddTransformed({i, i + 1, h_}, states.back().data(), next.data(), 0);
    states.push_back(std::move(next));
  }
  return states;
}

AdjointSolve::AdjointSolve(HostSolve& forward, const SolveSetting& setting,
                           const std::vector<double>& last)
    : forward_(forward), h_(setting.h) {
  trajectory_.emplace(std::move(*Trajectory::Make(forward.system(), forward.hierarchy(),
                                                  forward.propagator(), forward.lanes().count())));
  adjoint_ =
      std::make_unique<HostChain>(forward.stage(), forward.mirrored(), setting.coarse, setting.h);
  adjoint_->LineariseAt(*trajectory_);
  const State first = *adjoint_->Create();
  std::copy(last.begin(), last.end(), HostChain::Numbers(first));
  system_.emplace(std::move(
      *BlockSystem::Make(*adjoint_, forward.mirrored(), forward.lanes(), setting.storage, first)));
}

std::vector<double> AdjointSolve::Lambda(int number) {
  Trajectory adjoints = std::move(*Trajectory::Make(*system_, forward_.mirrored(), *adjoint_, 1));
  const double* const numbers =
      HostChain::Numbers(*adjoints.At(forward_.stage().steps() - number, 0));
  return {numbers, numbers + forward_.stage().state_size()};
}

Parameters AdjointSolve::Gradient(const WeightedChain& chain) {
  Parameters gradient = ZerosLike(chain.parameters);
  for (int step = 0; step < forward_.stage().steps(); ++step) {
    const std::vector<double> u = forward_.State(step);
    const std::vector<double> lambda = Lambda(step + 1);
    forward_.stage().AddStepGradient(step, h_, u.data(), lambda.data(), gradient, 0);
  }
  return gradient;
}

std::vector<double> Flat(const Parameters& parameters) {
  std::vector<double> all;
  for (const auto& [weights, bias] : parameters) {
    all.insert(all.end(), weights.begin(), weights.end());
    all.insert(all.end(), bias.begin(), bias.end());
  }
  return all;
}

double RelativeError(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference) / std::sqrt(norm);
}

}  // namespace ucudnn::multigrid
