// Residual steps as devices run them: layers that are calls of cuDNN, for one image. Plain values;
// pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

// A fully connected layer is a convolution of 1 x 1 on as many channels as it has inputs; what
// flattens or reshapes changes no number and is no layer.
struct StepLayer {
  enum class Kind { kConvolution, kScale, kRelu, kTanh };
  struct Extents {
    int channels = 1, rows = 1, columns = 1;

    int64_t Count() const { return int64_t{channels} * rows * columns; }
    bool operator==(const Extents&) const = default;
  };

  Kind kind = Kind::kRelu;
  Extents input, output;
  // Of a convolution: rows, columns.
  std::array<int, 2> window = {1, 1}, stride = {1, 1}, pad = {0, 0}, dilation = {1, 1};
  int groups = 1;
  int64_t weights = 0, bias = 0;  // how many numbers; a scale's weights are its factors
  int node = 0;                   // which of ResidualStep::transformation has them

  bool is_activation() const { return kind == Kind::kRelu || kind == Kind::kTanh; }
  bool operator==(const StepLayer&) const = default;
};

struct StepShape {
  StepLayer::Extents state;
  std::vector<StepLayer> layers;

  int64_t StateSize() const { return state.Count(); }
  // Numbers of the largest input or output of a layer.
  int64_t LargestValue() const;
  bool operator==(const StepShape&) const = default;
};

// The steps of a stage by their kinds: those of one kind are alike but for their numbers.
struct StageShapes {
  std::vector<StepShape> kinds;
  std::vector<int> kind_of;             // by step; of those that are not used -1
  std::vector<int> number_of;           // by step: among those of its kind
  std::vector<std::vector<int>> steps;  // by kind, in their order

  int64_t StateSize() const { return kinds.front().StateSize(); }
};

// Of the steps that `used` has, in rising order, or of all where it has none. The error names a
// node that devices do not run, and what is expected.
Result<StageShapes> ShapesOf(const ResidualChain& chain, const Stage& stage,
                             std::span<const int> used = {});

}  // namespace ucudnn::multigrid
