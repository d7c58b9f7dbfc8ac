// The residual steps of one stage on the host, in double precision: F(u), its transposed Jacobian
// and the gradient of its weights, for one mini-batch of packed states. Thread-compatible; several
// lanes may call at once, because each lane uses its own scratch.
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
  // `parameters` must outlive the stage, and may change between its calls. Each of `lanes` lanes
  // has its own scratch. If `used` is not empty, only the steps in it have weights, and the other
  // steps must not be called. Fails if CheckHostLayer or CheckWeights refuses a node; the error
  // names the node.
  static Result<HostStage> Make(const ResidualChain& chain, const Stage& stage,
                                const Parameters& parameters, int batch, int lanes,
                                std::span<const int> used = {});

  int steps() const { return static_cast<int>(steps_.size()); }
  int64_t state_size() const { return state_size_; }  // numbers in one state of all images
  int batch() const { return batch_; }

  // Adds factor * F(u) to `out`, for each layer of `range`. `out` may be `u`.
  void AddTransformed(const LayerRange& range, const double* u, double* out, int lane) const;
  // Adds factor * J_F(u)^T lambda to `out`, for each layer of `range`. `out` may be `lambda`.
  void AddTransposed(const LayerRange& range, const double* u, const double* lambda, double* out,
                     int lane) const;
  // Adds factor * (dF(u)/dweights)^T lambda to `gradient`, for the nodes of `step`.
  void AddStepGradient(int step, double factor, const double* u, const double* lambda,
                       Parameters& gradient, int lane) const;

 private:
  struct Step {
    std::vector<HostLayer> layers;
    std::vector<const NodeWeights*> weights;  // by layer
    std::vector<planner::NodeId> nodes;
  };
  struct Scratch {
    std::vector<std::vector<double>> values;  // the output of each layer of a step
    std::vector<double> gradients[2];         // buffers between which backward passes alternate
    std::vector<double> input;                // copy of an input that the result overwrites
    std::vector<double> loops;                // scratch of the functions of layers.h
  };

  HostStage() = default;
  // Returns `input`, or a copy of `input` if `out` is the same state.
  const double* Apart(const double* input, const double* out, Scratch& scratch) const;
  // Computes F(u) in the scratch, which keeps the output of each layer. Returns the address of
  // F(u).
  const double* RunForward(const Step& step, const double* u, Scratch& scratch) const;
  // Computes J_F(u)^T lambda in the scratch, after RunForward, and returns its address. Calls
  // visit(i, call, input, gradient of the output) for each layer from the last to the first. As
  // soon as visit() returns false, stops and returns null.
  template <typename Visit>
  const double* RunBackward(const Step& step, const double* u, const double* lambda,
                            Scratch& scratch, Visit&& visit) const;

  std::vector<Step> steps_;
  int64_t state_size_ = 0;
  int64_t intermediate_size_ = 0;  // count of numbers in the largest value inside a step
  int batch_ = 1;
  mutable std::vector<Scratch> scratch_;  // by lane
};

}  // namespace ucudnn::multigrid
