// The names that the program gives to its layers, by the shape of their convolutions.
// Thread-compatible.
#pragma once

#include <set>
#include <string>
#include <unordered_map>

#include "convolution/problem.h"

namespace ucudnn::interposer {

// The most names that are kept.
constexpr size_t kMostLayerNames = 10000;

class LayerNames {
 public:
  // Gives `name` to the kernels of this shape, in every operation and math type. Returns false if
  // there are kMostLayerNames names already.
  bool Add(const ConvolutionProblem& problem, const std::string& name);
  // Returns the names of the layers whose convolutions have the problem's shape; null: there are
  // none.
  const std::set<std::string>* Find(const ConvolutionProblem& problem) const;

 private:
  struct ShapeHash {
    size_t operator()(const ConvolutionProblem& shape) const { return shape.Hash(); }
  };

  std::unordered_map<ConvolutionProblem, std::set<std::string>, ShapeHash> names_;
  size_t count_ = 0;
};

}  // namespace ucudnn::interposer
