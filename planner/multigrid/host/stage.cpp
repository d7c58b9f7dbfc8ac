#include "planner/multigrid/host/stage.h"

#include <algorithm>

namespace ucudnn::multigrid {

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

const double* HostStage::RunForward(const Step& step, const double* u, Scratch& scratch) const {
  const double* x = u;
  for (size_t i = 0; i < step.layers.size(); ++i) {
    double* const y = scratch.values[i].data();
    Forward({step.layers[i], *step.weights[i], batch_, scratch.loops.data()}, x, y);
    x = y;
  }
  return x;
}

template <typename Visit>
const double* HostStage::RunBackward(const Step& step, const double* u, const double* lambda,
                                     Scratch& scratch, Visit&& visit) const {
  const double* dy = lambda;
  for (size_t i = step.layers.size(); i-- > 0;) {
    const double* const x = i == 0 ? u : scratch.values[i - 1].data();
    const LayerCall call = {step.layers[i], *step.weights[i], batch_, scratch.loops.data()};
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
  for (int step = range.begin; step < range.end; ++step) {
    const double* const value = RunForward(steps_[step], u, scratch);
    for (int64_t i = 0; i < state_size_; ++i) out[i] += range.factor * value[i];
  }
}

void HostStage::AddTransposed(const LayerRange& range, const double* u, const double* lambda,
                              double* out, int lane) const {
  Scratch& scratch = scratch_[lane];
  lambda = Apart(lambda, out, scratch);
  const auto passes_on = [](size_t, const LayerCall&, const double*, const double*) {
    return true;
  };
  for (int step = range.begin; step < range.end; ++step) {
    RunForward(steps_[step], u, scratch);
    const double* const dx = RunBackward(steps_[step], u, lambda, scratch, passes_on);
    for (int64_t i = 0; i < state_size_; ++i) out[i] += range.factor * dx[i];
  }
}

void HostStage::AddStepGradient(int number, double factor, const double* u, const double* lambda,
                                Parameters& gradient, int lane) const {
  Scratch& scratch = scratch_[lane];
  const Step& step = steps_[number];
  RunForward(step, u, scratch);
  RunBackward(step, u, lambda, scratch,
              [&](size_t i, const LayerCall& call, const double* x, const double* dy) {
                AddGradient(call, x, dy, factor, gradient[step.nodes[i]]);
                return i > 0;
              });
}

}  // namespace ucudnn::multigrid
