// What is known of the engines that may serve a kernel of the legacy API: measurements of the
// legacy algorithms and, where the user lets them, of the graph API's engines. What a run plans
// from, and what `ucudnn bench` leaves in the store for it. Thread-safe.
#pragma once

#include <vector>

#include "base/options.h"
#include "cudnn/mixed_engines.h"
#include "planning/promise.h"
#include "tuning/graph_choices.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::tuning {

// Whether engines of the graph API are among those of a legacy kernel's plan.
bool UsesGraph(const Configuration& plan);

// A kernel that is asked about.
struct LegacyKernel {
  Device device;
  ConvolutionProblem problem;
  int platform = 0;                // the device's, as the caller numbers them
  cudnnHandle_t handle = nullptr;  // on the device: what plans are built with
  bool capturing = false;          // on its stream: none is built then
  bool graph = true;               // graph engines may serve it
  // The heuristics' graph engines are measured also where the legacy algorithms were without them.
  bool catch_up = false;
};

struct GraphRows {
  GraphChoices::Template engine;
  std::vector<MicroConfiguration> rows;
};

// Of the legacy algorithms, and beside them of graph engines.
struct LegacyAnswer : Answer {
  std::vector<GraphRows> graph;
};

// What may share a plan, by the math type that the caller will have set; and what may under the
// problem's own.
std::vector<cudnn::MathGroup> Groups(const ConvolutionProblem& problem,
                                     const LegacyAnswer& measured);
std::vector<planning::Candidate> OwnCandidates(const ConvolutionProblem& problem,
                                               const LegacyAnswer& measured);

class LegacyKernels {
 public:
  // All arguments outlive the object. Of `options`: the engines and the policy.
  LegacyKernels(const cudnn::Functions& functions, const Options& options, MeasuredKernels& kernels)
      : functions_(functions), options_(options), kernels_(kernels), choices_(functions) {}

  // Measurements at the policy's micro-batches, for what `request` asks; none, with a status, when
  // the undivided kernel is not among them.
  LegacyAnswer Get(const LegacyKernel& kernel, const planning::PromiseRequest& request,
                   bool may_measure);

  // The graph engines among those of `plan`.
  cudnn::MixedEngines::Templates GraphEnginesOf(const LegacyKernel& kernel,
                                                const Configuration& plan);
  // The coarsest arithmetic of `plan` and what may take its place.
  Result<planning::NumericClass> CoarsestClass(const LegacyKernel& kernel,
                                               const Configuration& plan,
                                               const MicroConfiguration& undivided);
  // As MeasuredKernels::Verify; `undivided` is a legacy algorithm.
  Trust Verify(const LegacyKernel& kernel, const Configuration& plan,
               const MicroConfiguration& undivided, bool may_compare);

 private:
  EngineScope ScopeOf(const GraphChoices::Template& engine) const;
  // What the heuristics choose, on the whole mini-batch. False when a later call may measure more.
  bool MeasureGraphEngines(const LegacyKernel& kernel, const planning::PromiseRequest& request);
  // Those that were measured, at the policy's micro-batches.
  void AddGraphEngines(const LegacyKernel& kernel, const planning::PromiseRequest& request,
                       bool may_measure, LegacyAnswer& measured);

  const cudnn::Functions& functions_;
  const Options& options_;
  MeasuredKernels& kernels_;
  GraphChoices choices_;
};

}  // namespace ucudnn::tuning
