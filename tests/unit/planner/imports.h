// What tests of importers look at. Used from one thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

std::string DataFile(const std::string& name);  // its path
Result<Graph> LoadData(const std::string& name);

// The convolutions at batch 16, in words and sorted: independent of names and order.
std::vector<std::string> SortedConvolutions(const Graph& graph);

// "name: operator shape(inputs)" of every node, at batch 2.
std::vector<std::string> Listing(const Graph& graph);

}  // namespace ucudnn::planner
