// A network as layer-parallel multigrid sees it: stages of residual steps u + F(u) of one shape,
// joined by sections that run serially. Derived from a Graph. Pure functions.
// Source: Kirby et al., "Layer-Parallel Training with GPU Concurrency of Deep Residual Neural
// Networks via Nonlinear Multigrid", equation 1.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/graph/shapes.h"

namespace ucudnn::multigrid {

// u + F(u): `transformation` are the nodes of F in the order in which they run, each the only input
// of the next; `sum` is the Add that puts u back.
struct ResidualStep {
  std::vector<planner::NodeId> transformation;
  planner::NodeId sum = 0;
};

// Steps that follow each other at once, all of one shape: a system of its own.
struct Stage {
  planner::NodeId input = 0;  // the node whose output is the first state
  planner::Shape shape;       // of every state, for a mini-batch of one
  std::vector<ResidualStep> steps;
};

// Nodes between stages, before the first and behind the last, in graph order.
struct SerialSection {
  std::vector<planner::NodeId> nodes;
};

struct ResidualChain {
  planner::Graph graph;
  std::vector<planner::Shape> shapes;  // of each node's output, for a mini-batch of one
  std::vector<std::variant<SerialSection, Stage>> sections;  // in graph order

  int Steps() const;  // of all stages
};

// Whether batch normalisations inside steps are frozen: their statistics are then part of the
// parameters. Others couple the images of a mini-batch, and so the solves of the layers.
enum class BatchNorms { kRefused, kFrozen };

// The error is one line that names the node: no residual step; a batch normalisation in a step that
// is not frozen; something behind a step's sum that keeps it from being a residual step, as the
// ReLU of a post-activation ResNet does (the line says what network would do).
Result<ResidualChain> MakeResidualChain(const planner::Graph& graph, BatchNorms norms);

}  // namespace ucudnn::multigrid
