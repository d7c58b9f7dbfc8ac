// What is planned: the layers of a network at one batch size and the tensors between them, as DeePa
// counts them (Inception-v3 has 120). Plain values. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/graph/shapes.h"

namespace ucudnn::planner {

constexpr int kData = -1;  // the network's own input: every device loads what it needs of it

struct LayerInput {
  int producer = kData;  // position in LayerGraph::layers
  Shape shape;
};

// An operator that is given a parallel configuration, with the elementwise operators behind it
// (`followers`), which are computed where its output is.
struct PlannedLayer {
  std::string name;
  Operator op;
  std::vector<LayerInput> inputs;
  Shape output;
  int64_t weights = 0;  // without biases, whoever else reads them
  // All trained numbers, those of followers too; those that an earlier layer reads count there.
  int64_t parameters = 0;
  int64_t fixed_parameters = 0;  // likewise, never updated
  std::vector<int> tensors;      // that other nodes may read, too: Parameter::tensor
  std::vector<std::string> followers;
};

struct LayerGraph {
  std::string name;
  int batch = 1;
  std::vector<PlannedLayer> layers;  // every layer after its inputs

  int Find(const std::string& layer) const;  // its position; -1: none of that name
};

// Activations, batch normalisations, scales, dropout, softmax and losses follow the layer before
// them. What a normalisation or a softmax over divided images and channels sends (a few numbers a
// channel) is left out, as in DeePa. Errors are InferShapes's, and a network without layers.
Result<LayerGraph> BuildLayerGraph(const Graph& graph, int batch);

// Reads a Concat whose first inputs are those of another Concat from that one: DenseNet as Caffe
// writes it. Without it the search's tables grow with every layer of a dense block. The best plan
// of the rewritten graph costs at least that of the original: it may not move the same features
// twice. Returns how many were rewritten.
int ChainConcats(LayerGraph& graph);

// Multiply-add operations of a forward pass, counted as two; elementwise followers and joins as
// none.
double ForwardOperations(const PlannedLayer& layer);

// Elements that a layer keeps between its passes beside its output: an attention's scores.
double InnerElements(const PlannedLayer& layer);

}  // namespace ucudnn::planner
