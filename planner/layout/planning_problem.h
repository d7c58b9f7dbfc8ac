// The search problem that a network, a number of devices and a cost model define, and the cost of a
// plan. Plain values. Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "planner/cost/configuration.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/layer_graph.h"
#include "planner/search/problem.h"

namespace ucudnn::planner {

struct PlanningOptions {
  ConfigurationOptions configurations;
  int optimizer_states = 1;  // numbers per parameter in addition to its value and gradient
  // The model by which update_bytes are counted.
  UpdateModel update = UpdateModel::kParameterServer;
};

struct PlanningProblem {
  LayerGraph graph;
  std::vector<std::vector<ParallelConfiguration>> configurations;  // by layer
  std::vector<std::vector<ComputeModel::Cost>> compute;            // by layer and configuration
  std::vector<std::vector<double>> update_ms;                      // by layer and configuration
  std::vector<std::vector<double>> reduction_ms;                   // by layer and configuration
  // The first edges are the tensors between layers. The remaining edges join the first reader of a
  // parameter tensor to each further reader, and cost kForbiddenMs if the two readers divide the
  // tensor differently.
  SearchProblem search;
  std::vector<int> inputs;  // by tensor edge of `search`: number of the consumer's input
  UpdateModel update = UpdateModel::kParameterServer;
};

// Builds the problem of `graph`. The pair (Degrees::c, Degrees::r) says how a layer divides its
// parameters. Layers that read the same parameter tensor keep only configurations with pairs that
// all these layers can have. Fails if LegalConfigurations() fails, or if pins leave no common pair.
// Computes the costs of equal edges only once.
Result<PlanningProblem> BuildPlanningProblem(LayerGraph graph, int devices, const CostModel& model,
                                             const PlanningOptions& options = {});

const ParallelConfiguration& ConfigurationOf(const PlanningProblem& problem,
                                             const Assignment& assignment, int layer);

// The terms of DeePa's equation 1 for one assignment, and the bytes that it moves and keeps.
// Transfers include reductions.
struct LayoutCost {
  double transfer_ms = 0;
  double compute_ms = 0;
  double update_ms = 0;
  double total_ms = 0;
  // Bytes of activations, and of the gradients that are computed, that arrive at devices in one
  // step.
  int64_t transfer_bytes = 0;
  int64_t update_bytes = 0;  // bytes that the parameter server or the all-reduce moves
  int64_t memory_bytes = 0;  // most that any device needs
};

// Returns for each edge of `search` the bytes that arrive at devices in one step, forward and
// backward.
std::vector<int64_t> TransferBytes(const PlanningProblem& problem, const Assignment& assignment);

// Returns for the reduction of each layer the bytes that arrive at devices in one step, forward and
// backward.
std::vector<int64_t> ReductionBytes(const PlanningProblem& problem, const Assignment& assignment);

// Returns the cost of an assignment. Bytes are counted exactly, from the boxes that devices hold
// and need, whatever cost model the times of `problem` come from.
LayoutCost CostOf(const PlanningProblem& problem, const Assignment& assignment);

}  // namespace ucudnn::planner
