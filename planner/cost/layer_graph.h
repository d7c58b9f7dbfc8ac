// The graph that is planned: the layers of a network at one batch size and the tensors between
// them. Layers are counted as in DeePa, so Inception-v3 has 120. Plain values. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/graph/shapes.h"

namespace ucudnn::planner {

constexpr int kData = -1;  // the network's own input; every device loads the part that it needs

struct LayerInput {
  int producer = kData;  // position in LayerGraph::layers
  Shape shape;
  bool has_gradient = false;  // whether the backward pass computes the tensor's gradient
};

// An operator that gets a parallel configuration, and its `followers`: the operators after it that
// get no configuration of their own. Followers are computed on the devices that hold the operator's
// output.
struct PlannedLayer {
  std::string name;
  Operator op;
  std::vector<LayerInput> inputs;
  Shape output;
  int64_t weights = 0;  // without biases; includes weights that other layers also read
  bool trains_weights = false;
  // True if the backward pass computes the gradient of the output of `op`, before any follower is
  // applied.
  bool has_gradient = false;
  // Counts all trained numbers, also the numbers of followers. Numbers that an earlier layer also
  // reads count only for the earlier layer.
  int64_t parameters = 0;
  int64_t fixed_parameters = 0;  // numbers that are never updated, counted like `parameters`
  std::vector<int> tensors;      // tensors that other nodes may read too (Parameter::tensor)
  std::vector<std::string> followers;
};

struct LayerGraph {
  std::string name;
  int batch = 1;
  std::vector<PlannedLayer> layers;  // in an order in which every layer comes after its inputs

  int Find(const std::string& layer) const;  // position of the layer; -1 if no layer has that name
};

// Activations, batch normalisations, scales, dropout, softmax and losses become followers of the
// layer before them, unless they read the network's own input. A normalisation or a softmax over
// divided images and channels sends a few numbers per channel, which the graph leaves out, as DeePa
// does. Fails if InferShapes() fails or if the network has no layers.
Result<LayerGraph> BuildLayerGraph(const Graph& graph, int batch);

// Returns the number of operations of a forward pass. A multiply-add counts as two operations;
// elementwise followers and joins count as none.
double ForwardOperations(const PlannedLayer& layer);

// Returns how many elements a layer keeps for its backward pass in addition to its output: the
// scores of an attention, and 0 for other layers.
double InnerElements(const PlannedLayer& layer);

}  // namespace ucudnn::planner
