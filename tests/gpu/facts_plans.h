// Makes named graphs, finds the engine configurations that heuristics give for a graph, and makes
// plans of these configurations.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cudnn/backend.h"
#include "facts.h"
#include "tests/support/deviceless_cudnn.h"

namespace ucudnn::facts {

// The device for which plans are made: device 0, or with --profile the device that the file
// describes. No plan can run on a described device, and `present` is then null.
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
  // Returns the bytes of x, w, y and the fused operands together.
  size_t TensorBytes() const;
};

// Returns 60 graphs. With `tiny` they have the same names and kinds, but are small.
std::vector<NamedGraph> NamedGraphs(bool tiny);

// An engine with the choices of its knobs, in the order of the knobs' numbers.
struct Configuration {
  cudnn::BackendDescriptor descriptor;
  int64_t engine = -1;
  test::Graph::Knobs knobs;

  // Returns {"engine", "knobs"}.
  Json Described() const;
};

// Returns the configurations that heuristics give, the best one first.
std::vector<Configuration> Configurations(cudnnBackendDescriptor_t graph,
                                          const cudnn::PlanDevice& device,
                                          cudnnBackendHeurMode_t mode);

struct Plan {
  cudnn::BackendDescriptor descriptor;
  size_t workspace_bytes = 0;
  Json described;  // has "engine", "knobs" and "workspace_bytes"
  int64_t engine = -1;
  test::Graph::Knobs knobs;
};

// Makes a plan of a configuration. Throws if cuDNN refuses it.
Plan Finalized(const cudnn::PlanDevice& device, const Configuration& configuration);
// Returns the first plan that can be built. It tries the configurations of heuristics A, then the
// fallback's. If `engine` is given, it tries only configurations of that engine.
constexpr int64_t kAnyEngine = -1;
Plan FirstPlan(cudnnBackendDescriptor_t graph, const cudnn::PlanDevice& device,
               int64_t engine = kAnyEngine);

// The unique ids of a plan's tensors, and the addresses of the tensors' memory. The memory outlives
// the variant packs.
struct Operands {
  std::vector<int64_t> uids;
  std::vector<void*> pointers;
};
// Assigns addresses to the graph's tensors, one after the other from `begin` on.
Operands Placed(const NamedGraph& graph, char* begin);
cudnn::BackendDescriptor Pack(const Operands& operands, void* workspace);
void Execute(const Device& device, const Plan& plan, const cudnn::BackendDescriptor& pack);

}  // namespace ucudnn::facts
