// What is known of the engines that may serve a kernel of the legacy API: measurements of the
// legacy algorithms and, where the user allows them, of the graph API's engines. A run plans from
// it, and `ucudnn bench` leaves it in the store. Thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "base/options.h"
#include "cudnn/mixed_engines.h"
#include "planning/decision/promises.h"
#include "tuning/graph_choices.h"
#include "tuning/measured_kernels.h"

namespace ucudnn::tuning {

// A kernel that is asked about.
struct LegacyKernel {
  Device device;
  ConvolutionProblem problem;
  int platform = 0;                // of the device, as the caller numbers platforms
  cudnnHandle_t handle = nullptr;  // on the device; plans are built with it
  bool capturing = false;          // its stream is captured: no plan is built
  bool graph = true;               // engines of the graph API may serve the kernel
  bool may_measure = false;        // what nobody knows is measured
  // Whether the heuristics' graph engines are measured although the legacy algorithms were already
  // measured without them.
  bool catch_up = false;
  // The user's limit of its workspace, where there is one: as Question::must_fit.
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

// The candidates that may share a plan: by the math type that the caller will set, and of the
// problem's own math type.
std::vector<cudnn::MathGroup> Groups(const ConvolutionProblem& problem, const LegacyRows& measured);
std::vector<planning::Candidate> OwnCandidates(const ConvolutionProblem& problem,
                                               const LegacyRows& measured);

class LegacyKernels {
 public:
  // The caller owns all arguments and keeps them alive. Of `options` it uses the engines and the
  // policy.
  LegacyKernels(const cudnn::Functions& functions, const Options& options, MeasuredKernels& kernels)
      : functions_(functions), options_(options), kernels_(kernels), choices_(functions) {}

  // Measurements at the policy's micro-batch sizes, for what `request` asks. No rows, and a status
  // that says why, when the undivided kernel is not among them.
  LegacyRows Get(const LegacyKernel& kernel, const planning::PromiseRequest& request);

  // Grids of tiles within request.limit_bytes, with the engines that serve plain calls: those that
  // the heuristics choose for a tile and for the whole, and legacy algorithms on tiles of even
  // paddings.
  planning::Tilings GetTilings(const LegacyKernel& kernel, const planning::PromiseRequest& request);

  // Templates of the graph engines in `configuration`.
  cudnn::MixedEngines::Templates GraphEnginesOf(const LegacyKernel& kernel,
                                                const Configuration& configuration);
  // The coarsest arithmetic among the engines of `configuration` and `undivided`.
  Result<NumericClass> CoarsestClass(const LegacyKernel& kernel, const Configuration& configuration,
                                     const MicroConfiguration& undivided);
  // As MeasuredKernels::Verify; `undivided` is a legacy algorithm.
  Trust Verify(const LegacyKernel& kernel, const planning::Compare& question);

 private:
  GraphScope ScopeOf(const GraphChoices::Template& engine) const;
  // `question` about one graph engine on the whole mini-batch.
  Question OfEngine(const GraphChoices::Template& engine, const Question& question) const;
  // Measures what the heuristics choose, on the whole mini-batch. Returns false when a later call
  // may measure more.
  bool MeasureGraphEngines(const LegacyKernel& kernel, const Question& question);
  // The graph engines that tiles of the kernel may have. Without a `handle` that may build plans
  // (null), those that are known.
  std::vector<GraphChoices::Template> EnginesOfTiles(const LegacyKernel& kernel);
  // The kernel's own algorithms that exceed `limit_bytes` undivided, the fastest first.
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
