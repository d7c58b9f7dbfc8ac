// Residual steps as lists of layers that cuDNN runs, described for one image. Plain values; pure
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

// A layer that is one call of cuDNN. A fully connected layer is a 1 x 1 convolution whose channels
// are the layer's inputs. Flatten and Reshape change no number and are no layers.
struct StepLayer {
  enum class Kind { kConvolution, kScale, kRelu, kTanh };
  struct Extents {
    int channels = 1, rows = 1, columns = 1;

    int64_t Count() const { return int64_t{channels} * rows * columns; }
    bool operator==(const Extents&) const = default;
  };

  Kind kind = Kind::kRelu;
  Extents input, output;
  // Of a convolution; {along rows, along columns}.
  std::array<int, 2> window = {1, 1}, stride = {1, 1}, pad = {0, 0}, dilation = {1, 1};
  int groups = 1;
  int64_t weights = 0, bias = 0;  // counts; the weights of a scale are its factors
  bool is_trained = true;         // as IsTrained() says
  int node = 0;                   // position of the layer's node in ResidualStep::transformation

  bool is_activation() const { return kind == Kind::kRelu || kind == Kind::kTanh; }
  bool operator==(const StepLayer&) const = default;
};

struct StepShape {
  StepLayer::Extents state;
  std::vector<StepLayer> layers;

  int64_t StateSize() const { return state.Count(); }
  // Returns the number of numbers in the largest input or output of a layer.
  int64_t LargestValue() const;
  bool operator==(const StepShape&) const = default;
};

// The steps of a stage by kind. Steps of one kind differ only in the values of their numbers.
struct StageShapes {
  std::vector<StepShape> kinds;
  std::vector<int> kind_of;             // by step; -1 if the step is not used
  std::vector<int> number_of;           // by step: its position among the steps of its kind
  std::vector<std::vector<int>> steps;  // by kind, in the order of the steps

  int64_t StateSize() const { return kinds.front().StateSize(); }
};

// Returns the shapes of the steps in `used`, which is in ascending order, or of all steps if `used`
// is empty. Fails if devices do not support a node of these steps; the error names the node and
// what is expected.
Result<StageShapes> ShapesOf(const ResidualChain& chain, const Stage& stage,
                             std::span<const int> used = {});

}  // namespace ucudnn::multigrid
