// Finds or makes the measurements of engines that may serve a kernel of the legacy API: legacy
// algorithms and, if the user allows them, engines of the graph API. The interposer makes plans
// with these measurements; `ucudnn bench` makes and stores them in advance. Thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "cudnn/mixed_engines.h"
#include "options/options.h"
#include "planning/decision/promises.h"
#include "planning/math_groups.h"
#include "tuning/graph_choices.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::tuning {

// The kernel for which a caller wants measurements.
struct KernelToMeasure {
  Device device;
  ConvolutionProblem problem;
  int platform = 0;                // the number that the caller gives to the device's platform
  cudnnHandle_t handle = nullptr;  // a handle on the device, for making plans
  bool capturing = false;          // the handle's stream is captured, so no plan is made
  bool graph = true;               // engines of the graph API may serve the kernel
  bool may_measure = false;        // false: only known measurements are returned
  // True if the heuristics' graph engines are measured even if the legacy algorithms were measured
  // earlier without them.
  bool catch_up = false;
  // The user's limit of the kernel's workspace, if there is one (Question::must_fit).
  std::optional<size_t> must_fit;
};

struct GraphRows {
  GraphChoices::Template engine;
  std::vector<MicroConfiguration> rows;
};

// Rows of the legacy algorithms and, separately, of each graph engine.
struct LegacyRows : MeasuredRows {
  std::vector<GraphRows> graph;
};

// Groups returns one group of candidates for each math type that the caller may set. All pieces of
// a plan must have engines of the same group. OwnCandidates returns only the group of the problem's
// own math type.
std::vector<planning::MathGroup> Groups(const ConvolutionProblem& problem,
                                        const LegacyRows& measured);
std::vector<planning::Candidate> OwnCandidates(const ConvolutionProblem& problem,
                                               const LegacyRows& measured);

class LegacyKernels {
 public:
  // The caller owns all arguments and keeps them alive. `options` says which engines and which
  // policy are used.
  LegacyKernels(const cudnn::Functions& functions, const Options& options, MeasuredKernels& kernels)
      : functions_(functions), options_(options), kernels_(kernels), choices_(functions) {}

  // Returns measurements at the policy's micro-batch sizes for `request`. They include a row of the
  // undivided kernel or, with must_fit, the rows of a configuration that fits. If neither the row
  // nor such a configuration is known, returns no rows and a status that says why.
  LegacyRows Get(const KernelToMeasure& kernel, const planning::PromiseRequest& request);

  // Returns grids of tiles within request.limit_bytes, with engines that may run in plain calls:
  // engines that the heuristics choose for tiles and for the undivided convolution, and legacy
  // algorithms on tiles with even paddings.
  planning::Tilings GetTilings(const KernelToMeasure& kernel,
                               const planning::PromiseRequest& request);

  // Leaves out each grid of `tilings` that OrInTiles would choose for `request`, but that is slower
  // than an undivided engine when both are timed on the whole tensors (Compare::faster_than). Keeps
  // grids that cannot be timed under `proof`. Returns the tilings that are left.
  planning::Tilings WithoutSlower(const KernelToMeasure& kernel,
                                  const std::vector<planning::Candidate>& candidates,
                                  const planning::PromiseRequest& request,
                                  planning::Tilings tilings, planning::Proof proof);

  // Returns the templates of the graph engines in `configuration`.
  cudnn::MixedEngines::Templates GraphEnginesOf(const KernelToMeasure& kernel,
                                                const Configuration& configuration);
  // Returns a scope of the legacy algorithms and `engines`.
  MixedScope ScopeOf(cudnn::MixedEngines::Templates engines) const;
  // Returns the coarsest numeric class among the engines of `configuration` and `undivided`.
  Result<NumericClass> CoarsestClass(const KernelToMeasure& kernel,
                                     const Configuration& configuration,
                                     const MicroConfiguration& undivided);
  // Does what MeasuredKernels::Verify does, for a legacy kernel. The undivided engine
  // `question.against` is a legacy algorithm.
  Trust Verify(const KernelToMeasure& kernel, const planning::Compare& question);

 private:
  GraphScope ScopeOf(const GraphChoices::Template& engine) const;
  // Returns `question` for only one graph engine, on the whole mini-batch.
  Question OfEngine(const GraphChoices::Template& engine, const Question& question) const;
  // Measures, on the whole mini-batch, the engines that the heuristics choose. Returns false if a
  // later call may measure more.
  bool MeasureGraphEngines(const KernelToMeasure& kernel, const Question& question);
  // Returns the graph engines that tiles of the kernel may run. If `kernel.handle` is null, no plan
  // can be made, and only known engines are returned.
  std::vector<GraphChoices::Template> EnginesOfTiles(const KernelToMeasure& kernel);
  // Returns the kernel's own algorithms that need more than the request's limit for the undivided
  // kernel: at most kMostAlgorithms, the fastest first.
  std::vector<EngineId> AlgorithmsOver(const KernelToMeasure& kernel, const Question& question);
  // Adds, at the policy's micro-batch sizes, rows of the graph engines that were measured on the
  // whole mini-batch.
  void AddGraphEngines(const KernelToMeasure& kernel, const Question& question,
                       LegacyRows& measured);

  const cudnn::Functions& functions_;
  const Options& options_;
  MeasuredKernels& kernels_;
  GraphChoices choices_;
};

}  // namespace ucudnn::tuning
