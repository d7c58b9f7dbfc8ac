// The residual steps of one stage on the host, in double precision: F(u), its transposed Jacobian
// and the gradient of its weights, for one mini-batch of packed states.
// Thread-compatible; a lane's calls use that lane's scratch alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/host/layers.h"
#include "planner/multigrid/parameters.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

class HostStage {
 public:
  // `parameters` outlive the stage and may be changed between its calls. Each of `lanes` lanes has
  // scratch of its own. Where `used` has steps only those have weights, and others are not called
  // for. An error names a node that has no reference, or whose weights do not fit.
  static Result<HostStage> Make(const ResidualChain& chain, const Stage& stage,
                                const Parameters& parameters, int batch, int lanes,
                                std::span<const int> used = {});

  int steps() const { return static_cast<int>(steps_.size()); }
  int64_t state_size() const { return state_size_; }  // numbers of one state, all images together
  int batch() const { return batch_; }

  // out += factor * F(u), of each layer of `range`; `out` may be `u`.
  void AddTransformed(const LayerRange& range, const double* u, double* out, int lane) const;
  // out += factor * J_F(u)^T lambda; `out` may be `lambda`.
  void AddTransposed(const LayerRange& range, const double* u, const double* lambda, double* out,
                     int lane) const;
  // gradient of the step's nodes += factor * (the derivative of F(u) by its weights)^T lambda.
  void AddStepGradient(int step, double factor, const double* u, const double* lambda,
                       Parameters& gradient, int lane) const;

 private:
  struct Step {
    std::vector<HostLayer> layers;
    std::vector<const NodeWeights*> weights;  // one for each layer
    std::vector<planner::NodeId> nodes;
  };
  struct Scratch {
    std::vector<std::vector<double>> values;  // what each layer of a step gives
    std::vector<double> gradients[2];         // two that backward passes alternate between
    std::vector<double> input;                // a copy of what the result is written over
    std::vector<double> loops;                // of Forward and the like
  };

  HostStage() = default;
  // `input`, or a copy of it where `out` is the same state.
  const double* Apart(const double* input, const double* out, Scratch& scratch) const;
  // F(u), in the scratch, which keeps what each layer gives.
  const double* RunForward(const Step& step, const double* u, Scratch& scratch) const;
  // J_F(u)^T lambda, in the scratch, after RunForward. Calls visit(i, call, input, gradient of the
  // output) for each layer from the last to the first, and ends where that is false.
  template <typename Visit>
  const double* RunBackward(const Step& step, const double* u, const double* lambda,
                            Scratch& scratch, Visit&& visit) const;

  std::vector<Step> steps_;
  int64_t state_size_ = 0;
  int64_t intermediate_size_ = 0;  // of the largest value inside a step
  int batch_ = 1;
  mutable std::vector<Scratch> scratch_;  // by lane
};

}  // namespace ucudnn::multigrid
