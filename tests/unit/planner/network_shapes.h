// Graphs of well-known networks for tests of the search: the number of layers, and which layers
// read which. Layers have no shapes. A layer's inputs have smaller numbers than the layer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

struct NetworkShape {
  std::string name;
  int layers = 0;
  std::vector<std::pair<int, int>> edges;

  int Add(const std::vector<int>& inputs);
  int AddChain(int from, int count);
};

NetworkShape AlexNetShape();
NetworkShape Vgg16Shape();
NetworkShape InceptionV3Shape();  // with the 120 layers that DeePa counts
NetworkShape ResNetShape(const std::vector<int>& blocks, bool bottleneck);
NetworkShape DenseNetShape(const std::vector<int>& blocks, bool chained, bool bottleneck);
NetworkShape NasNetShape(int cells);  // `cells` normal cells in each stage
NetworkShape EfficientNetB0Shape();
NetworkShape UNetShape();

// Draws costs from [0, 1) ms for `configurations` configurations of every layer. Equal seeds give
// equal costs.
SearchProblem WithRandomCosts(const NetworkShape& shape, int configurations, unsigned seed);

}  // namespace ucudnn::planner
