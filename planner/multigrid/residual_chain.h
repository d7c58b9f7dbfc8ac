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
// of the next; `sum` is the Add that puts u back. They are convolutions, fully connected layers,
// relu, tanh, frozen batch normalisations, and what flattens or reshapes around a fully connected
// layer. Only the step itself reads them.
struct ResidualStep {
  std::vector<planner::NodeId> transformation;
  planner::NodeId sum = 0;
};

// Steps that follow each other at once, all of one shape: a system of its own. Only the next step
// reads a sum, but for the last one's, which anything behind may read.
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
  // Each after those whose outputs it reads. Together they have every node once. Two stages have
  // nothing between them where more than the next step reads the sum in which the first one ends.
  std::vector<std::variant<SerialSection, Stage>> sections;

  std::vector<const Stage*> Stages() const;  // in the order of their sections
  const Stage* LongestStage() const;         // the first with most steps; null: there is no stage
  int Steps() const;                         // of all stages
};

// Whether batch normalisations inside steps are frozen: their statistics are then part of the
// parameters. Others couple the images of a mini-batch, and so the solves of the layers.
enum class BatchNorms { kRefused, kFrozen };

// The error is one line that names the node and says what is expected of it: no residual step, or
// none that follows another at once; in a step an operator that none of ResidualStep's is, a batch
// normalisation that is not frozen; something behind a step's sum that keeps it from being the next
// step's input, as the ReLU of a post-activation ResNet does (the line says what network would do).
Result<ResidualChain> MakeResidualChain(const planner::Graph& graph, BatchNorms norms);

}  // namespace ucudnn::multigrid
