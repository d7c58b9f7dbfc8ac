#include "planner/multigrid/host/stage.h"

#include <algorithm>

#include "base/text.h"

namespace ucudnn::multigrid {
namespace {

bool AreEqual(const planner::Convolution& a, const planner::Convolution& b) {
  return a.window == b.window && a.stride == b.stride && a.pad == b.pad &&
         a.dilation == b.dilation && a.groups == b.groups && a.extra_pad == b.extra_pad;
}

bool AreEqual(const planner::Pooling& a, const planner::Pooling& b) {
  return a.kind == b.kind && a.window == b.window && a.stride == b.stride && a.pad == b.pad &&
         a.round_up == b.round_up && a.extra_pad == b.extra_pad;
}

// Whether the layers compute the same of the same numbers.
bool HaveEqualLayers(const HostLayer& a, const HostLayer& b) {
  if (a.op.index() != b.op.index() || !(a.input == b.input) || !(a.output == b.output)) {
    return false;
  }
  const WeightCounts counts_a = WeightCountsOf(a);
  const WeightCounts counts_b = WeightCountsOf(b);
  if (counts_a.weights != counts_b.weights || counts_a.bias != counts_b.bias) return false;
  if (const auto* op = std::get_if<planner::Convolution>(&a.op)) {
    return AreEqual(*op, std::get<planner::Convolution>(b.op));
  }
  if (const auto* op = std::get_if<planner::Pooling>(&a.op)) {
    return AreEqual(*op, std::get<planner::Pooling>(b.op));
  }
  if (const auto* op = std::get_if<planner::GlobalPooling>(&a.op)) {
    return op->kind == std::get<planner::GlobalPooling>(b.op).kind;
  }
  const auto* activation = std::get_if<planner::Activation>(&a.op);
  return activation == nullptr || activation->kind == std::get<planner::Activation>(b.op).kind;
}

void AddScaled(const std::vector<double>& from, double factor, std::vector<double>& to) {
  if (to.empty()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[i] += factor * from[i];
}

}  // namespace

Result<HostStage> HostStage::Make(const ResidualChain& chain, const Stage& stage,
                                  const Parameters& parameters, int batch, int lanes,
                                  std::span<const int> used) {
  HostStage made;
  made.batch_ = batch;
  made.state_size_ = stage.shape.Features() * batch;
  size_t layers = 0;
  size_t loops = 0;
  for (const ResidualStep& residual : stage.steps) {
    Step step;
    planner::Shape input = stage.shape;
    const int number = made.steps();
    const bool has_weights = used.empty() || std::binary_search(used.begin(), used.end(), number);
    for (const planner::NodeId id : residual.transformation) {
      const planner::Node& node = chain.graph.nodes[id];
      HostLayer layer = {node.op, input, chain.shapes[id]};
      UCUDNN_RETURN_IF_ERROR(CheckHostLayer(node.name, layer));
      if (has_weights) UCUDNN_RETURN_IF_ERROR(CheckWeights(node.name, layer, parameters[id]));
      made.intermediate_size_ = std::max(made.intermediate_size_, layer.output.Features() * batch);
      loops = std::max(loops, ScratchOf(layer));
      input = layer.output;
      step.layers.push_back(layer);
      step.weights.push_back(&parameters[id]);
      step.nodes.push_back(id);
    }
    layers = std::max(layers, step.layers.size());
    made.steps_.push_back(std::move(step));
  }
  const auto largest = static_cast<size_t>(std::max(made.intermediate_size_, made.state_size_));
  made.scratch_.resize(lanes);
  for (Scratch& scratch : made.scratch_) {
    scratch.values.assign(layers, std::vector<double>(largest));
    for (auto& gradient : scratch.gradients) gradient.resize(largest);
    scratch.input.resize(made.state_size_);
    scratch.loops.resize(loops);
  }
  return made;
}

Status HostStage::CheckCanAverage() const {
  for (size_t i = 1; i < steps_.size(); ++i) {
    const auto& layers = steps_[i].layers;
    const auto& first = steps_[0].layers;
    if (!std::equal(layers.begin(), layers.end(), first.begin(), first.end(), HaveEqualLayers)) {
      return Status::Error("the mean of weights needs layers of one kind, and step " +
                           std::to_string(i) +
                           " differs from the first; another coarse operator "
                           "is expected");
    }
  }
  return Status::Ok();
}

void HostStage::AverageBlocks(int span) {
  MeanBlocks mean = {.span = span, .blocks = {}};
  const size_t layers = steps_[0].layers.size();
  for (int block = 0; block + span <= steps(); block += span) {
    std::vector<NodeWeights> sums(layers);
    for (int step = block; step < block + span; ++step) {
      for (size_t layer = 0; layer < layers; ++layer) {
        AddScaled(steps_[step].weights[layer]->weights, 1.0 / span, sums[layer].weights);
        AddScaled(steps_[step].weights[layer]->bias, 1.0 / span, sums[layer].bias);
      }
    }
    mean.blocks.push_back(std::move(sums));
  }
  std::erase_if(means_, [&](const MeanBlocks& old) { return old.span == span; });
  means_.push_back(std::move(mean));
}

template <typename Visit>
void HostStage::ForEach(const LayerRange& range, Visit&& visit) const {
  if (!range.is_mean) {
    for (int i = range.begin; i < range.end; ++i) {
      const Step& step = steps_[i];
      visit(step, [&](size_t layer) -> const NodeWeights& { return *step.weights[layer]; });
    }
    return;
  }
  const int span = range.end - range.begin;
  const auto mean = std::find_if(means_.begin(), means_.end(),
                                 [&](const MeanBlocks& blocks) { return blocks.span == span; });
  const auto& weights = mean->blocks[range.begin / span];
  visit(steps_[range.begin], [&](size_t layer) -> const NodeWeights& { return weights[layer]; });
}

template <typename Weights>
const double* HostStage::RunForward(const Step& step, const Weights& weights, const double* u,
                                    Scratch& scratch) const {
  const double* x = u;
  for (size_t i = 0; i < step.layers.size(); ++i) {
    double* const y = scratch.values[i].data();
    Forward({step.layers[i], weights(i), batch_, scratch.loops.data()}, x, y);
    x = y;
  }
  return x;
}

template <typename Weights, typename Visit>
const double* HostStage::RunBackward(const Step& step, const Weights& weights, const double* u,
                                     const double* lambda, Scratch& scratch, Visit&& visit) const {
  const double* dy = lambda;
  for (size_t i = step.layers.size(); i-- > 0;) {
    const double* const x = i == 0 ? u : scratch.values[i - 1].data();
    const LayerCall call = {step.layers[i], weights(i), batch_, scratch.loops.data()};
    if (!visit(i, call, x, dy)) return nullptr;
    double* const dx = scratch.gradients[i % 2].data();
    TransposedJacobian(call, x, scratch.values[i].data(), dy, dx);
    dy = dx;
  }
  return dy;
}

const double* HostStage::Apart(const double* input, const double* out, Scratch& scratch) const {
  if (input != out) return input;
  std::copy_n(input, state_size_, scratch.input.data());
  return scratch.input.data();
}

void HostStage::AddTransformed(const LayerRange& range, const double* u, double* out,
                               int lane) const {
  Scratch& scratch = scratch_[lane];
  u = Apart(u, out, scratch);
  ForEach(range, [&](const Step& step, const auto& weights) {
    const double* const value = RunForward(step, weights, u, scratch);
    for (int64_t i = 0; i < state_size_; ++i) out[i] += range.factor * value[i];
  });
}

void HostStage::AddTransposed(const LayerRange& range, const double* u, const double* lambda,
                              double* out, int lane) const {
  Scratch& scratch = scratch_[lane];
  lambda = Apart(lambda, out, scratch);
  const auto passes_on = [](size_t, const LayerCall&, const double*, const double*) {
    return true;
  };
  ForEach(range, [&](const Step& step, const auto& weights) {
    RunForward(step, weights, u, scratch);
    const double* const dx = RunBackward(step, weights, u, lambda, scratch, passes_on);
    for (int64_t i = 0; i < state_size_; ++i) out[i] += range.factor * dx[i];
  });
}

void HostStage::AddStepGradient(int number, double factor, const double* u, const double* lambda,
                                Parameters& gradient, int lane) const {
  Scratch& scratch = scratch_[lane];
  const Step& step = steps_[number];
  const auto weights = [&](size_t layer) -> const NodeWeights& { return *step.weights[layer]; };
  RunForward(step, weights, u, scratch);
  RunBackward(step, weights, u, lambda, scratch,
              [&](size_t i, const LayerCall& call, const double* x, const double* dy) {
                AddGradient(call, x, dy, factor, gradient[step.nodes[i]]);
                return i > 0;
              });
}

}  // namespace ucudnn::multigrid
