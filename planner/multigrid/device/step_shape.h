// Residual steps as lists of layers that cuDNN runs, for one image. Plain values; pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

// A layer that is one call of cuDNN. A fully connected layer is a 1 x 1 convolution with its inputs
// as channels. A Flatten or Reshape changes no number and is no layer.
struct StepLayer {
  enum class Kind { kConvolution, kScale, kRelu, kTanh };
  struct Extents {
    int channels = 1, rows = 1, columns = 1;

    int64_t Count() const { return int64_t{channels} * rows * columns; }
    bool operator==(const Extents&) const = default;
  };

  Kind kind = Kind::kRelu;
  Extents input, output;
  // For a convolution: rows, columns.
  std::array<int, 2> window = {1, 1}, stride = {1, 1}, pad = {0, 0}, dilation = {1, 1};
  int groups = 1;
  int64_t weights = 0, bias = 0;  // how many numbers; the weights of a scale are its factors
  int node = 0;                   // the layer's node in ResidualStep::transformation

  bool is_activation() const { return kind == Kind::kRelu || kind == Kind::kTanh; }
  bool operator==(const StepLayer&) const = default;
};

struct StepShape {
  StepLayer::Extents state;
  std::vector<StepLayer> layers;

  int64_t StateSize() const { return state.Count(); }
  // Returns the numbers of the largest input or output of a layer.
  int64_t LargestValue() const;
  bool operator==(const StepShape&) const = default;
};

// The steps of a stage by kind: steps of one kind differ in their numbers only.
struct StageShapes {
  std::vector<StepShape> kinds;
  std::vector<int> kind_of;             // by step; -1 if the step is not used
  std::vector<int> number_of;           // by step: its place among the steps of its kind
  std::vector<std::vector<int>> steps;  // by kind, in the order of the steps

  int64_t StateSize() const { return kinds.front().StateSize(); }
};

// Returns the shapes of the steps in `used`, which is in rising order, or of all steps if `used` is
// empty. Fails if devices do not run a node of theirs; the error names the node and what is
// expected.
Result<StageShapes> ShapesOf(const ResidualChain& chain, const Stage& stage,
                             std::span<const int> used = {});

}  // namespace ucudnn::multigrid
