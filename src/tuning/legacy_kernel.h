// Finds or makes the measurements of engines that may serve a kernel of the legacy API: legacy
// algorithms and, if the user allows them, engines of the graph API. A run plans with them, and
// `ucudnn bench` stores them. Thread-safe.
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

// A kernel that is asked about.
struct LegacyKernel {
  Device device;
  ConvolutionProblem problem;
  int platform = 0;                // number that the caller gives the device's platform
  cudnnHandle_t handle = nullptr;  // a handle on the device, for making plans
  bool capturing = false;          // its stream is captured: no plan is made
  bool graph = true;               // engines of the graph API may serve the kernel
  bool may_measure = false;        // missing measurements are made
  // True if the heuristics' graph engines are measured although the legacy algorithms were already
  // measured without them.
  bool catch_up = false;
  // The user's limit of its workspace, if there is one; see Question::must_fit.
  std::optional<size_t> must_fit;
};

struct GraphRows {
  GraphChoices::Template engine;
  std::vector<MicroConfiguration> rows;
};

// Rows of the legacy algorithms (MeasuredRows) and, each by itself, of graph engines.
struct LegacyRows : MeasuredRows {
  std::vector<GraphRows> graph;
};

// Returns the candidates that may share a plan: by the math type that the caller will set, and of
// the problem's own math type.
std::vector<planning::MathGroup> Groups(const ConvolutionProblem& problem,
                                        const LegacyRows& measured);
std::vector<planning::Candidate> OwnCandidates(const ConvolutionProblem& problem,
                                               const LegacyRows& measured);

class LegacyKernels {
 public:
  // The caller owns all arguments and keeps them alive. `options` gives the engines and the policy.
  LegacyKernels(const cudnn::Functions& functions, const Options& options, MeasuredKernels& kernels)
      : functions_(functions), options_(options), kernels_(kernels), choices_(functions) {}

  // Measurements at the policy's micro-batch sizes for `request`. If the undivided kernel is not
  // among them, returns no rows, and a status that says why.
  LegacyRows Get(const LegacyKernel& kernel, const planning::PromiseRequest& request);

  // Returns grids of tiles within request.limit_bytes, with the engines that serve plain calls:
  // engines that the heuristics choose for tiles and for the whole, and legacy algorithms on tiles
  // of even paddings.
  planning::Tilings GetTilings(const LegacyKernel& kernel, const planning::PromiseRequest& request);

  // Returns `tilings` without the grids that OrInTiles would choose from them for `request`
  // although they are slower in place (Compare::faster_than), as far as `proof` allows to find out.
  planning::Tilings WithoutSlower(const LegacyKernel& kernel,
                                  const std::vector<planning::Candidate>& candidates,
                                  const planning::PromiseRequest& request,
                                  planning::Tilings tilings, planning::Proof proof);

  // Templates of the graph engines in `configuration`.
  cudnn::MixedEngines::Templates GraphEnginesOf(const LegacyKernel& kernel,
                                                const Configuration& configuration);
  // Returns the legacy algorithms and `engines`.
  MixedScope ScopeOf(cudnn::MixedEngines::Templates engines) const;
  // Returns the coarsest arithmetic among the engines of `configuration` and `undivided`.
  Result<NumericClass> CoarsestClass(const LegacyKernel& kernel, const Configuration& configuration,
                                     const MicroConfiguration& undivided);
  // MeasuredKernels::Verify for legacy kernels, which are compared with a legacy algorithm.
  Trust Verify(const LegacyKernel& kernel, const planning::Compare& question);

 private:
  GraphScope ScopeOf(const GraphChoices::Template& engine) const;
  // Returns `question` restricted to one graph engine on the whole mini-batch.
  Question OfEngine(const GraphChoices::Template& engine, const Question& question) const;
  // Measures the engines that the heuristics choose, on the whole mini-batch. Returns false if a
  // later call may measure more.
  bool MeasureGraphEngines(const LegacyKernel& kernel, const Question& question);
  // Returns the graph engines that tiles of the kernel may have. Without a `handle` for making
  // plans (null), only engines that are known.
  std::vector<GraphChoices::Template> EnginesOfTiles(const LegacyKernel& kernel);
  // Returns the kernel's own algorithms that need more than `limit_bytes` undivided, the fastest
  // first.
  std::vector<EngineId> AlgorithmsOver(const LegacyKernel& kernel, const Question& question);
  // Adds the rows of graph engines that were measured on the whole mini-batch, at the policy's
  // micro-batch sizes.
  void AddGraphEngines(const LegacyKernel& kernel, const Question& question, LegacyRows& measured);

  const cudnn::Functions& functions_;
  const Options& options_;
  MeasuredKernels& kernels_;
  GraphChoices choices_;
};

}  // namespace ucudnn::tuning
