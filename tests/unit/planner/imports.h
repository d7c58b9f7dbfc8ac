// Helps tests of importers to inspect graphs. One thread may use it.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

std::string DataFile(const std::string& name);  // returns the file's path
Result<Graph> LoadData(const std::string& name);

// Returns the convolutions at batch 16, in words and sorted, so that names and order do not matter.
std::vector<std::string> SortedConvolutions(const Graph& graph);

// Returns "name: operator shape(inputs)" for every node, at batch 2.
std::vector<std::string> Listing(const Graph& graph);

}  // namespace ucudnn::planner
