// Lists the layers of well-known networks and, for each layer, the layers that it reads, for tests
// of the search. Layers have no shapes, and are numbered so that inputs come first.
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
NetworkShape InceptionV3Shape();  // 120 layers, as DeePa counts
NetworkShape ResNetShape(const std::vector<int>& blocks, bool bottleneck);
NetworkShape DenseNetShape(const std::vector<int>& blocks, bool chained, bool bottleneck);
NetworkShape NasNetShape(int cells);  // normal cells per stage
NetworkShape EfficientNetB0Shape();
NetworkShape UNetShape();

// Draws costs from [0, 1) ms for `configurations` configurations of every layer. A seed always
// gives the same costs.
SearchProblem WithRandomCosts(const NetworkShape& shape, int configurations, unsigned seed);

}  // namespace ucudnn::planner
