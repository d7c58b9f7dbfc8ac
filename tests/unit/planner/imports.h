// Functions with which tests of importers inspect graphs. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

std::string DataFile(const std::string& name);  // returns the path of a file in data/
Result<Graph> LoadData(const std::string& name);

// Returns sorted texts of the convolutions at batch 16, without their names.
std::vector<std::string> SortedConvolutions(const Graph& graph);

// Returns "name: operator shape(inputs)" for every node, at batch 2.
std::vector<std::string> Listing(const Graph& graph);

}  // namespace ucudnn::planner
