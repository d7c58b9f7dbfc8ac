// Builds a graph whose nodes mostly form a chain; the built-in networks are described with this
// class. A function that adds nodes appends them to last() and begins their names with `name`.
// Exceptions: Join() takes the inputs as an argument, and Classify() chooses the names.
// Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/graph/shapes.h"

namespace ucudnn::planner {

// Returns a convolution with a square window. `bias` is false by default, because a normalisation
// usually follows.
Convolution Square(int32_t filters, int32_t window, int32_t stride = 1, int32_t pad = 0,
                   bool bias = false);
// Returns a convolution with as many groups as channels.
Convolution Depthwise(int32_t channels, int32_t window, int32_t stride, int32_t pad);
Pooling SquarePooling(PoolingKind kind, int32_t window, int32_t stride, int32_t pad = 0,
                      bool round_up = false);

class Chain {
 public:
  // Begins with images of `extent` x `extent` pixels.
  Chain(const std::string& network, int32_t channels, int32_t extent);
  Chain(const std::string& network, const Input& images);

  NodeId last() const { return last_; }
  void ContinueFrom(NodeId node) { last_ = node; }

  void Append(const std::string& name, const Operator& op);
  void Join(const std::string& name, const Operator& op, const std::vector<NodeId>& inputs);

  void Relu(const std::string& name) { Append(name, Activation{ActivationKind::kRelu}); }
  void MaxPool(const std::string& name, int32_t window, int32_t stride, int32_t pad = 0,
               bool round_up = false);
  void AveragePool(const std::string& name, int32_t window, int32_t stride, int32_t pad = 0);
  // Returns the number of positions of the last node's output.
  int32_t Positions() const;
  // Adds a convolution, its normalisation and its activation: `name`, `name`.bn and `name`.act.
  void Unit(const std::string& name, const Convolution& convolution,
            ActivationKind activation = ActivationKind::kRelu);
  // Adds a convolution and its normalisation.
  void Normalised(const std::string& name, const Convolution& convolution);
  // Adds a normalisation and an activation in front of a convolution.
  void PreActivated(const std::string& name, const Convolution& convolution);
  // Adds a global average, the fully connected layer `fc` and the softmax `prob`.
  void Classify(int32_t classes, double dropout = 0);

  Result<Graph> Build() const { return builder_.Build(); }

 private:
  void Put(const std::string& name, const Operator& op, const std::vector<NodeId>& inputs,
           std::vector<Parameter> parameters);
  const Shape& shape() const { return shapes_[static_cast<size_t>(last_)]; }

  GraphBuilder builder_;
  std::vector<Shape> shapes_;  // shapes of the nodes' outputs; Shape() for a node that does not fit
  NodeId last_ = 0;
};

}  // namespace ucudnn::planner
