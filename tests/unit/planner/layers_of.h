// Builds built-in networks and finds their layers by name.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "planner/cost/layer_graph.h"
#include "planner/graph/networks.h"

namespace ucudnn::planner {

inline LayerGraph Network(const std::string& name, int batch) {
  return *BuildLayerGraph(*BuildNetwork(name), batch);
}

inline const PlannedLayer& LayerOf(const LayerGraph& graph, const std::string& name) {
  EXPECT_GE(graph.Find(name), 0) << name;
  return graph.layers[static_cast<size_t>(graph.Find(name))];
}

}  // namespace ucudnn::planner
