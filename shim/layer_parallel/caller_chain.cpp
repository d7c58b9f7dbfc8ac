#include "layer_parallel/caller_chain.h"

#include "planner/multigrid/coarse_operator.h"

namespace ucudnn::layer_parallel {
namespace {

// Returns `range` as the C API's struct. `factor` multiplies the chain's own step size, which only
// the program knows.
ucudnnLayerParallelRange_t RangeInC(const multigrid::LayerRange& range, int level) {
  ucudnnLayerParallelRange_t made = {};
  made.struct_size = sizeof made;
  made.level = level;
  made.first_layer = range.begin;
  made.layers = range.end - range.begin;
  made.factor = range.factor;
  return made;
}

Caller::Subject SubjectOf(const ucudnnLayerParallelRange_t& range) {
  return {.level = range.level, .first_layer = range.first_layer, .layers = range.layers};
}

}  // namespace

CallerChain::~CallerChain() {
  const ucudnnLayerParallelCallbacks_t& callbacks = caller_.callbacks();
  for (const State state : states_) callbacks.destroy(callbacks.user, state);
}

Result<State> CallerChain::Create() {
  const ucudnnLayerParallelCallbacks_t& callbacks = caller_.callbacks();
  const Caller::Subject subject = {.state = static_cast<long long>(states_.size())};
  // The vector grows before the callback runs, so that no state is lost if memory is out.
  states_.push_back(nullptr);
  State& made = states_.back();
  Status status =
      caller_.Run("create", subject, 0, [&] { return callbacks.create(callbacks.user, &made); });
  if (status.ok() && made == nullptr) {
    status = caller_.Fail({"create", subject, 0, "made a null pointer"}, 0);
  }
  if (status.ok()) return made;
  states_.pop_back();
  return status;
}

Status CallerChain::Combine(State to, double b, double a, State x, int lane) {
  const ucudnnLayerParallelCallbacks_t& callbacks = caller_.callbacks();
  return caller_.Run("combine", {}, lane,
                     [&] { return callbacks.combine(callbacks.user, a, x, b, to, lane); });
}

Status CallerChain::SquaredDistance(State x, State y, double* result, int lane) {
  const ucudnnLayerParallelCallbacks_t& callbacks = caller_.callbacks();
  return caller_.Run("squared_distance", {}, lane, [&] {
    return callbacks.squared_distance(callbacks.user, x, y, lane, result);
  });
}

Status CallerChain::Step(int level, int step, State from, State to, int lane) {
  const ucudnnLayerParallelCallbacks_t& callbacks = caller_.callbacks();
  const multigrid::Level& shape = setting_.hierarchy.level(level);
  if (linearised_ == nullptr) {
    const ucudnnLayerParallelRange_t range =
        RangeInC(LayersOf(setting_.coarse, shape, step, 1), level);
    return caller_.Run("step", SubjectOf(range), lane,
                       [&] { return callbacks.step(callbacks.user, &range, from, to, lane); });
  }
  const ucudnnLayerParallelRange_t range =
      RangeInC(AdjointLayersOf(setting_.coarse, shape, step, 1), level);
  UCUDNN_ASSIGN_OR_RETURN(const State state, linearised_->At(range.first_layer, lane));
  return caller_.Run("adjoint_step", SubjectOf(range), lane, [&] {
    return callbacks.adjoint_step(callbacks.user, &range, state, from, to, lane);
  });
}

}  // namespace ucudnn::layer_parallel
