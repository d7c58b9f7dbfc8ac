#include "planner/multigrid/problem.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/text.h"
#include "planner/multigrid/host/layers.h"
#include "planner/multigrid/host/network.h"

namespace ucudnn::multigrid {
namespace {

using planner::NodeId;

constexpr double kNormEpsilon = 1e-5;  // torch's default

// Returns the values of the array that has one of the names `names`. Fails unless there are `count`
// values, all finite.
Result<std::vector<double>> Take(const std::vector<NamedArray>& arrays, const std::string& file,
                                 const std::vector<std::string>& names, size_t count) {
  const auto array = std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& one) {
    return std::find(names.begin(), names.end(), one.name) != names.end();
  });
  if (array == arrays.end()) {
    return Status::Error(file + ": there is no array " + Quoted(names.front()) + ", of " +
                         std::to_string(count) + " values");
  }
  const std::vector<double>& values = array->values;
  if (values.size() != count) {
    return Status::Error(file + ": " + Quoted(array->name) + " has " +
                         std::to_string(values.size()) + " values; " + std::to_string(count) +
                         " are expected");
  }
  const auto bad = std::find_if(values.begin(), values.end(),
                                [](double value) { return !std::isfinite(value); });
  if (bad == values.end()) return values;
  return Status::Error(file + ": " + Quoted(array->name) + " is not finite at value " +
                       std::to_string(bad - values.begin()));
}

// Folds the statistics of a batch normalisation into its weights, so that scale * (x - mean) /
// sqrt(variance + epsilon) + shift becomes weights * x + bias.
Status FoldStatistics(const std::vector<NamedArray>& arrays, const std::string& file,
                      const std::string& name, NodeWeights& weights) {
  const size_t channels = weights.weights.size();
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> mean,
                          Take(arrays, file, {name + ".running_mean"}, channels));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> variance,
                          Take(arrays, file, {name + ".running_var"}, channels));
  for (size_t c = 0; c < channels; ++c) {
    if (variance[c] < 0) {
      return Status::Error(file + ": " + Quoted(name + ".running_var") + " is negative at value " +
                           std::to_string(c));
    }
    weights.weights[c] /= std::sqrt(variance[c] + kNormEpsilon);
    weights.bias[c] -= mean[c] * weights.weights[c];
  }
  return Status::Ok();
}

bool IsKirbys(const std::string& network) { return network.rfind("kirby-", 0) == 0; }

}  // namespace

Result<Problem> UndrawnProblem(const planner::Graph& graph, BatchNorms norms) {
  Problem problem;
  UCUDNN_ASSIGN_OR_RETURN(problem.chain, MakeResidualChain(graph, norms));
  if (IsKirbys(graph.name)) problem.time = 1;
  return problem;
}

Result<Problem> DrawnProblem(const planner::Graph& graph, BatchNorms norms, uint64_t seed) {
  UCUDNN_ASSIGN_OR_RETURN(Problem problem, UndrawnProblem(graph, norms));
  problem.seed = seed;
  problem.parameters = DrawParameters(problem.chain, seed);
  problem.input = DrawImage(problem.chain, seed);
  return problem;
}

std::vector<double> DrawImage(const ResidualChain& chain, uint64_t seed) {
  std::mt19937_64 random(seed + 1);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> image(chain.shapes.front().Features());
  for (double& number : image) number = normal(random);
  return image;
}

Parameters TakeParameters(int rank, const Placement& placement, bool copies, Problem& problem) {
  if (problem.parameters.empty()) {
    return DrawParameters(problem.chain, problem.seed,
                          [&](NodeId id) { return placement.owners[id] == rank; });
  }
  if (copies) return ParametersOf(rank, placement, problem.parameters);
  Parameters own(problem.parameters.size());
  for (size_t id = 0; id < own.size(); ++id) {
    if (placement.owners[id] == rank) own[id] = std::move(problem.parameters[id]);
  }
  return own;
}

Result<Problem> ProblemOf(const ChainWeights& weights, planner::ActivationKind activation) {
  const auto channels = static_cast<int32_t>(weights.channels);
  const auto kernel = static_cast<int32_t>(weights.kernel);
  const int32_t pad = kernel / 2;
  planner::GraphBuilder builder("chain");
  NodeId last = builder.Add(
      "u0",
      planner::Input{channels,
                     {1, static_cast<int32_t>(weights.rows), static_cast<int32_t>(weights.columns)},
                     2},
      {});
  for (int64_t layer = 0; layer < weights.layers; ++layer) {
    const std::string name = "step" + std::to_string(layer + 1);
    const NodeId convolution =
        builder.Add(name + ".conv",
                    planner::Convolution{
                        .filters = channels, .window = {1, kernel, kernel}, .pad = {0, pad, pad}},
                    {last});
    const NodeId activated =
        builder.Add(name + ".act", planner::Activation{activation}, {convolution});
    last = builder.Add(name + ".add", planner::Add{}, {activated, last});
  }
  UCUDNN_ASSIGN_OR_RETURN(const planner::Graph graph, builder.Build());
  Problem problem;
  UCUDNN_ASSIGN_OR_RETURN(problem.chain, MakeResidualChain(graph, BatchNorms::kRefused));
  problem.parameters.resize(graph.nodes.size());
  const int64_t size = weights.channels * weights.channels * weights.kernel * weights.kernel;
  auto kernels = weights.kernels.begin();
  auto biases = weights.biases.begin();
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    if (!std::holds_alternative<planner::Convolution>(graph.nodes[id].op)) continue;
    problem.parameters[id].weights.assign(kernels, kernels + size);
    problem.parameters[id].bias.assign(biases, biases + weights.channels);
    kernels += size;
    biases += weights.channels;
  }
  problem.input = weights.state;
  problem.has_drawn_weights = false;
  return problem;
}

Status TakeWeights(const std::vector<NamedArray>& arrays, const std::string& file,
                   Problem& problem) {
  const std::vector<planner::Node>& nodes = problem.chain.graph.nodes;
  for (size_t id = 0; id < nodes.size(); ++id) {
    NodeWeights& weights = problem.parameters[id];
    const std::string& name = nodes[id].name;
    const bool is_trained = IsTrained(nodes[id].op);
    if (!is_trained) {
      weights.weights.assign(weights.weights.size(), 1.0);
      weights.bias.assign(weights.bias.size(), 0.0);
    }
    if (is_trained && !weights.weights.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(weights.weights,
                              Take(arrays, file, {name + ".weight", name}, weights.weights.size()));
    }
    if (is_trained && !weights.bias.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(weights.bias,
                              Take(arrays, file, {name + ".bias"}, weights.bias.size()));
    }
    if (std::holds_alternative<planner::BatchNormalization>(nodes[id].op)) {
      UCUDNN_RETURN_IF_ERROR(FoldStatistics(arrays, file, name, weights));
    }
  }
  problem.has_drawn_weights = false;
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
