#include "unit/planner/multigrid/drawn_net.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tests/support/must.h"

namespace ucudnn::multigrid {
namespace {

using planner::NodeId;
using planner::Operator;

planner::Convolution Square(int filters, int window) {
  return {.filters = filters, .window = {1, window, window}, .pad = {0, window / 2, window / 2}};
}

std::vector<Operator> OperatorsOf(StepKind kind, const NetShape& shape) {
  const int channels = shape.channels;
  const planner::Activation activation = {shape.activation};
  switch (kind) {
    case StepKind::kConvolution:
      return {Square(channels, 3), activation};
    case StepKind::kTwoConvolutions:
      return {Square(channels + 1, 3), activation, Square(channels, 1)};
    case StepKind::kGroups: {
      planner::Convolution grouped = Square(channels, 3);
      grouped.groups = 2;
      grouped.dilation = {1, 2, 2};
      grouped.pad = {0, 2, 2};
      return {grouped, activation};
    }
    case StepKind::kPreActivation: {
      planner::Convolution wide = {.filters = channels, .window = {1, 1, 3}, .pad = {0, 0, 1}};
      planner::Convolution high = {.filters = channels, .window = {1, 3, 1}, .pad = {0, 1, 0}};
      high.bias = false;
      return {planner::Scale{}, activation, wide, high};
    }
    case StepKind::kPooled:
      return {planner::Pooling{.kind = planner::PoolingKind::kAverage,
                               .window = {1, 3, 3},
                               .stride = {1, 1, 1},
                               .pad = {0, 1, 1}},
              Square(channels, 3), activation};
    case StepKind::kFullyConnected:
      return {planner::FullyConnected{.outputs = channels}, activation};
    case StepKind::kBottleneck:
      return {planner::FullyConnected{.outputs = channels / 2}, activation,
              planner::FullyConnected{.outputs = channels, .bias = false}};
  }
  return {};
}

// Draws weights for a layer. With a gain of 1, the layer's output is about as large as its input.
NodeWeights DrawWeights(const HostLayer& layer, std::mt19937_64& random, double gain) {
  const WeightCounts counts = WeightCountsOf(layer);
  int64_t outputs = layer.output.c;
  if (std::holds_alternative<planner::Scale>(layer.op)) outputs = counts.weights;
  const int64_t inputs = outputs == 0 ? 1 : counts.weights / outputs;
  return {DrawnNumbers(counts.weights, gain / std::sqrt(inputs), random),
          DrawnNumbers(counts.bias, 0.1, random)};
}

}  // namespace

WeightedChain ChainOf(const std::vector<std::vector<Operator>>& steps, const NetShape& shape,
                      std::mt19937_64& random, double gain) {
  WeightedChain made = {
      .chain = ChainOfSteps({shape.channels, {1, shape.extent, shape.extent}, 2}, steps),
      .batch = shape.batch};
  made.parameters.resize(made.chain.graph.nodes.size());
  for (const ResidualStep& step : made.stage().steps) {
    planner::Shape from = made.stage().shape;
    for (const NodeId id : step.transformation) {
      const planner::Shape& to = made.chain.shapes[id];
      made.parameters[id] = DrawWeights({made.chain.graph.nodes[id].op, from, to}, random, gain);
      from = to;
    }
  }
  made.first = DrawnNumbers(made.stage().shape.Features() * shape.batch, 1, random);
  return made;
}

WeightedChain DrawnNet(const NetShape& shape, std::mt19937_64& random, double gain) {
  std::vector<std::vector<Operator>> steps;
  for (const StepKind kind : shape.kinds) steps.push_back(OperatorsOf(kind, shape));
  return ChainOf(steps, shape, random, gain);
}

NetShape DrawNetShape(std::mt19937_64& random, int steps) {
  NetShape shape;
  shape.channels = 2 * DrawNumber(random, 1, 2);
  const bool has_extent = DrawNumber(random, 0, 2) > 0;
  shape.extent = has_extent ? DrawNumber(random, 2, 4) : 1;
  const int first_connected = static_cast<int>(StepKind::kFullyConnected);
  const int kinds = has_extent ? first_connected : kStepKinds;
  const bool mixes = DrawNumber(random, 0, 2) == 0;
  const int only = DrawNumber(random, 0, kinds - 1);
  for (int i = 0; i < steps; ++i) {
    shape.kinds.push_back(static_cast<StepKind>(mixes ? DrawNumber(random, 0, kinds - 1) : only));
  }
  if (DrawNumber(random, 0, 1) == 0) shape.activation = planner::ActivationKind::kRelu;
  shape.batch = DrawNumber(random, 1, 3);
  return shape;
}

std::string TextOf(const NetShape& shape) {
  std::string text = std::to_string(shape.batch) + " of " + std::to_string(shape.channels) + " x " +
                     std::to_string(shape.extent) + "^2, ";
  text += shape.activation == planner::ActivationKind::kRelu ? "relu" : "tanh";
  text += ", steps of kinds";
  for (const StepKind kind : shape.kinds) text += " " + std::to_string(static_cast<int>(kind));
  return text;
}

int DrawNumber(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

DrawnSolve DrawSolve(std::mt19937_64& random, int most_steps) {
  DrawnSolve drawn;
  const int steps = DrawNumber(random, 4, most_steps);
  const int wanted = DrawNumber(random, 2, 4);
  int left = steps;
  auto& [coarsening, levels, coarse, h, storage, lanes] = drawn.setting;
  coarsening.clear();
  for (levels = 1; levels < wanted && left / 2 >= 2; ++levels) {
    const int factor = DrawNumber(random, 2, std::min(left / 2, 6));
    coarsening.push_back(factor);
    left /= factor;
  }
  drawn.hierarchy = *Hierarchy::Make(steps, coarsening, levels);
  drawn.options.c_sweeps.clear();
  for (int level = DrawNumber(random, 1, levels - 1); level > 0; --level) {
    drawn.options.c_sweeps.push_back(DrawNumber(random, 0, 2));
  }
  drawn.options.skips_first_down = DrawNumber(random, 0, 3) == 0;
  drawn.options.cycles = 1;
  drawn.options.measures_cycles = false;
  storage = DrawNumber(random, 0, 1) == 0 ? Storage::kAll : Storage::kCPoints;
  lanes = DrawNumber(random, 1, 4);
  return drawn;
}

std::string DrawnSolve::Text() const {
  std::ostringstream text;
  text << hierarchy.level(0).steps << " layers, c =";
  for (const int factor : setting.coarsening) text << ' ' << factor;
  text << ", sweeps of C-relaxation";
  for (const int sweeps : options.c_sweeps) text << ' ' << sweeps;
  if (options.start == Start::kNested) text << ", nested";
  if (options.skips_first_down) text << ", skips first down";
  text << (setting.storage == Storage::kAll ? ", all states" : ", C-points") << ", "
       << setting.lanes << " lanes";
  return text.str();
}

}  // namespace ucudnn::multigrid
