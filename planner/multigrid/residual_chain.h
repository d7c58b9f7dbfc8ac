// A network in the form that layer-parallel multigrid needs: stages of residual steps u + F(u) of
// one shape, joined by sections that run serially. It is derived from a Graph. Pure functions.
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

// A step u + F(u). `transformation` has the nodes of F in the order in which they run; each is the
// only input of the next. `sum` is the Add that adds u. The nodes are convolutions, fully connected
// layers, relu, tanh, frozen batch normalisations, and a Flatten or Reshape around a fully
// connected layer. No node outside of the step reads them.
struct ResidualStep {
  std::vector<planner::NodeId> transformation;
  planner::NodeId sum = 0;
};

// Consecutive steps of one shape, which are solved as one system. Only the next step reads a sum;
// any nodes after the stage may read the last sum.
struct Stage {
  planner::NodeId input = 0;  // the node whose output is the first state
  planner::Shape shape;       // the shape of every state, for a mini-batch of one
  std::vector<ResidualStep> steps;
};

// The nodes between two stages, before the first stage or after the last stage, in graph order.
struct SerialSection {
  std::vector<planner::NodeId> nodes;
};

struct ResidualChain {
  planner::Graph graph;
  std::vector<planner::Shape> shapes;  // shapes of the nodes' outputs, for a mini-batch of one
  // Each section comes after the sections whose outputs it reads, and every node is in exactly one
  // section. Two stages are neighbours without a section between them if a node other than the next
  // step also reads the last sum of the first stage.
  std::vector<std::variant<SerialSection, Stage>> sections;

  std::vector<const Stage*> Stages() const;  // in the order of their sections
  const Stage* LongestStage() const;  // the first stage with most steps; null if there is none
  int StepCount() const;              // number of steps of all stages
};

// Says whether batch normalisations inside steps are frozen, so that their statistics are
// parameters. Batch normalisations that are not frozen couple the images of a mini-batch, and
// therefore the solves of the layers.
enum class BatchNorms { kRefused, kFrozen };

// Finds the stages of `graph`. Fails in the following cases, with one line that names the node and
// what is expected:
// - No two residual steps follow each other.
// - A step has an operator that ResidualStep does not list, or a batch normalisation that is not
// frozen.
// - An operator after a step's sum, such as the ReLU of a post-activation ResNet, prevents the sum
// from being the input of the next step. The line then names a network that would be accepted.
Result<ResidualChain> MakeResidualChain(const planner::Graph& graph, BatchNorms norms);

}  // namespace ucudnn::multigrid
