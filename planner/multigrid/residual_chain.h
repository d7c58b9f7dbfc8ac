// A network as layer-parallel multigrid needs it: stages of residual steps u + F(u) of one shape,
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

// A step u + F(u): `transformation` has the nodes of F in the order in which they run, each of them
// the only input of the next; `sum` is the Add that adds u. The nodes are convolutions, fully
// connected layers, relu, tanh, frozen batch normalisations, and a Flatten or Reshape around a
// fully connected layer. Only the step itself reads them.
struct ResidualStep {
  std::vector<planner::NodeId> transformation;
  planner::NodeId sum = 0;
};

// Consecutive steps of one shape, which are one system to solve. Only the next step reads a sum;
// anything behind the stage may read the last sum.
struct Stage {
  planner::NodeId input = 0;  // the node whose output is the first state
  planner::Shape shape;       // of every state, for a mini-batch of one
  std::vector<ResidualStep> steps;
};

// Nodes between stages, in front of the first or behind the last, in graph order.
struct SerialSection {
  std::vector<planner::NodeId> nodes;
};

struct ResidualChain {
  planner::Graph graph;
  std::vector<planner::Shape> shapes;  // of each node's output, for a mini-batch of one
  // Each section comes after those whose outputs it reads, and together they have every node once.
  // Two stages follow each other without a section between them if more than the next step reads
  // the sum in which the first one ends.
  std::vector<std::variant<SerialSection, Stage>> sections;

  std::vector<const Stage*> Stages() const;  // in the order of their sections
  const Stage* LongestStage() const;         // the first with most steps; null if none
  int Steps() const;                         // of all stages
};

// Whether batch normalisations inside steps are frozen: their statistics are then part of the
// parameters. Other batch normalisations couple the images of a mini-batch, and thus the solves of
// the layers.
enum class BatchNorms { kRefused, kFrozen };

// Finds the stages of `graph`. Fails with one line that names the node and what is expected of it
// if there is no residual step, or no two steps follow each other; if a step has an operator that
// ResidualStep does not list, or a batch normalisation that is not frozen; or if something behind a
// step's sum keeps it from being the input of the next step, like the ReLU of a post-activation
// ResNet. In the last case the line says what network would do.
Result<ResidualChain> MakeResidualChain(const planner::Graph& graph, BatchNorms norms);

}  // namespace ucudnn::multigrid
