// The built-in networks, each described once. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// alexnet (one tower, Krizhevsky 2014), alexnet-caffe (two groups, Krizhevsky 2012), vgg16
// (Simonyan and Zisserman 2014, configuration D), resnet18 (He 2015).
const std::vector<std::string>& NetworkNames();

// An unknown name is an error that lists the known ones.
Result<Graph> BuildNetwork(const std::string& name);

}  // namespace ucudnn::planner
