// Shapes and parameter counts of a graph's nodes. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// The shape of a node's output. The extents of flat features are 1.
struct Shape {
  int32_t n = 1;
  int32_t c = 1;
  Spatial extents = {1, 1, 1};  // d, h, w
  int32_t spatial_rank = 2;

  bool operator==(const Shape&) const = default;
  int64_t Features() const;  // elements of one image
};

std::string Describe(const Shape& shape);  // "64x3x224x224"

// Fails unless all extents are positive, d is 1 in two dimensions, and a tensor of this shape has
// at most 2^63 - 1 bytes.
Status CheckShape(const Shape& shape);

// Returns the output shape of `op` for `inputs`. The error says what does not fit. REQUIRES: `op`
// needs exactly as many inputs as `inputs` has.
Result<Shape> OutputShape(const Operator& op, const std::vector<Shape>& inputs, int batch);

// Returns the output shape of every node for a mini-batch of `batch` images, by NodeId. An error
// names the node and what does not fit.
Result<std::vector<Shape>> InferShapes(const Graph& graph, int batch);

constexpr int64_t kMostParameters = int64_t{1} << 48;  // limit of one node

// Counts of the numbers that nodes read in addition to their inputs.
struct ParameterCounts {
  int64_t trained = 0;
  int64_t fixed = 0;

  bool operator==(const ParameterCounts&) const = default;
};

// Counts the weights, biases, scales and shifts of one node whose first input has shape `input`,
// even if other nodes read them too.
ParameterCounts ParametersOf(const Node& node, const Shape& input);

// Returns the counts by NodeId. A tensor that several nodes read counts only for the first of these
// nodes. `shapes` are from InferShapes() for any batch.
std::vector<ParameterCounts> OwnParameters(const Graph& graph, const std::vector<Shape>& shapes);

// Returns by NodeId whether the backward pass computes the gradient of the node's output. This is
// so if the node, or a node on which it depends, has a trained parameter. `shapes` are from
// InferShapes().
std::vector<bool> HaveGradients(const Graph& graph, const std::vector<Shape>& shapes);

// Returns the number of trained parameters of all nodes. Fails if shapes do not fit, or if the
// number exceeds 63 bits.
Result<int64_t> ParameterCount(const Graph& graph);

}  // namespace ucudnn::planner
