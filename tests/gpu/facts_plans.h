// Named graphs, the engine configurations that heuristics give for them, and plans that run.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cudnn/backend.h"
#include "facts.h"
#include "tests/support/deviceless_cudnn.h"

namespace ucudnn::facts {

// The device for which plans are made: the first one or, with --profile, a described one, on which
// nothing runs.
struct Target {
  explicit Target(const Options& options);

  std::unique_ptr<const Device> present;
  cudnn::BackendDescriptor profile;
  cudnn::PlanDevice device;
};

struct NamedGraph {
  std::string name;
  ConvolutionProblem problem;
  test::GraphOptions options;

  test::Graph Build(const cudnn::PlanDevice& device) const;
  // Returns the bytes that x, w, y and the fused operands take together.
  size_t TensorBytes() const;
};

// Returns sixty graphs; with `tiny` they have the same names and kinds, but are small.
std::vector<NamedGraph> NamedGraphs(bool tiny);

// An engine with its knobs (number and value, by rising number).
struct Configuration {
  cudnn::BackendDescriptor descriptor;
  int64_t engine = -1;
  test::Graph::Knobs knobs;

  // Returns {"engine", "knobs"}.
  Json Described() const;
};

// Returns the heuristics' configurations, the best first.
std::vector<Configuration> Configurations(cudnnBackendDescriptor_t graph,
                                          const cudnn::PlanDevice& device,
                                          cudnnBackendHeurMode_t mode);

struct Plan {
  cudnn::BackendDescriptor descriptor;
  size_t workspace_bytes = 0;
  Json described;  // engine, knobs and workspace_bytes
  int64_t engine = -1;
  test::Graph::Knobs knobs;
};

// Throws if the library refuses the configuration.
Plan Finalized(const cudnn::PlanDevice& device, const Configuration& configuration);
// Returns the first plan of heuristics A, then of the fallback, that can be built; if `engine` is
// given, the first of that engine.
constexpr int64_t kAnyEngine = -1;
Plan FirstPlan(cudnnBackendDescriptor_t graph, const cudnn::PlanDevice& device,
               int64_t engine = kAnyEngine);

// The tensors that a plan reads and writes, and their places. It must outlive its variant packs.
struct Operands {
  std::vector<int64_t> uids;
  std::vector<void*> pointers;
};
// Places the graph's tensors one after the other from `begin` on.
Operands Placed(const NamedGraph& graph, char* begin);
cudnn::BackendDescriptor Pack(const Operands& operands, void* workspace);
void Execute(const Device& device, const Plan& plan, const cudnn::BackendDescriptor& pack);

}  // namespace ucudnn::facts
