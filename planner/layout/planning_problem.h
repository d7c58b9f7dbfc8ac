// A network, a machine's devices and a cost model as a search problem, and what a plan of it means.
// Plain values. Thread-compatible.
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
  int optimizer_states = 1;  // numbers a parameter beside its value and gradient
  UpdateModel update = UpdateModel::kParameterServer;  // whose bytes are counted
};

struct PlanningProblem {
  LayerGraph graph;
  std::vector<std::vector<ParallelConfiguration>> configurations;  // by layer
  std::vector<std::vector<ComputeModel::Cost>> compute;            // by layer and configuration
  std::vector<std::vector<double>> update_ms;                      // likewise
  std::vector<std::vector<double>> reduction_ms;                   // likewise
  // Its edges are the tensors between layers; behind these, edges from the first reader of a
  // parameter tensor to each other one, which cost kForbiddenMs where the two divide it
  // differently.
  SearchProblem search;
  std::vector<int> inputs;  // by tensor edge of `search`: which input of its consumer it is
  UpdateModel update = UpdateModel::kParameterServer;
};

// Layers that read one parameter tensor are given the degrees c and r that all of them can have.
// Errors are those of LegalConfigurations, and pins that leave such layers no common c and r. Edges
// that are alike share one computation.
Result<PlanningProblem> BuildPlanningProblem(LayerGraph graph, int devices, const CostModel& model,
                                             const PlanningOptions& options = {});

const ParallelConfiguration& ConfigurationOf(const PlanningProblem& problem,
                                             const Assignment& assignment, int layer);

// The terms of equation 1 for one assignment, and what it moves and keeps. Reductions are among
// the transfers.
struct LayoutCost {
  double transfer_ms = 0;
  double compute_ms = 0;
  double update_ms = 0;
  double total_ms = 0;
  int64_t transfer_bytes = 0;  // arriving at devices in one step, forward and backward
  int64_t update_bytes = 0;    // by the parameter server or all-reduce
  int64_t memory_bytes = 0;    // no device needs more
};

// What each edge of `search` moves: bytes arriving at devices in one step, forward and backward.
std::vector<int64_t> TransferBytes(const PlanningProblem& problem, const Assignment& assignment);

// What the reduction of each layer moves, likewise.
std::vector<int64_t> ReductionBytes(const PlanningProblem& problem, const Assignment& assignment);

// Bytes are counted by exact box intersection whatever the cost model.
LayoutCost CostOf(const PlanningProblem& problem, const Assignment& assignment);

}  // namespace ucudnn::planner
