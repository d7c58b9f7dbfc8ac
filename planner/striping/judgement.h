// Judges one operator of a network whose images are cut: whether the ranks' results equal the
// result that one process computes from whole images, and how these results are placed. Pure
// functions.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "planner/graph/graph.h"
#include "planner/striping/cut_windows.h"
#include "planner/striping/placement.h"

namespace ucudnn::planner {

// Verdicts in ascending order of trouble:
// - kExact: each rank computes its stripe of the result from its own stripe of the input and from
// rows that ucudnn exchanges inside the call.
// - kGather: the operator needs all positions, so the program gathers them first.
// - kConvert: the unchanged program would compute another result, but ucudnn.spatial.convert makes
// the result exact.
// - kUnvouched: it is not known whether the result equals the result of one process.
// - kRefused: the operator is refused with and without convert.
enum class Verdict { kExact, kGather, kConvert, kUnvouched, kRefused };
const char* VerdictName(Verdict verdict);  // "exact", "gather", "convert", "unvouched", "refused"

// The value that UCUDNN_SPATIAL_ONE must have if maps have one row on every rank.
enum class OnesAre { kEither, kSplit, kReplicated };

struct Judgement {
  Verdict verdict = Verdict::kExact;
  std::string why;                // the reason for a verdict other than kExact
  bool never_as_it_is = false;    // whether a program's own call fails at every size of the image
  bool never_converted = false;   // whether convert fails at every size of the image
  bool pools_over_ranks = false;  // whether a window covers the whole cut axis
  OnesAre ones = OnesAre::kEither;
  // For convolutions and poolings: the windows along each axis of the input that is cut. For a
  // transposed convolution: the windows of the convolution whose gradient it is.
  std::array<std::optional<CutWindows>, kMaxSpatial> windows;
  // The placement of the result. A refused operator gets equal stripes, so that later operators can
  // be judged.
  Placement output;
};

// Returns the grid for an input of `graph`. If images have several rows, an input of one row is not
// cut: each rank has this row.
SpatialGrid GridOfNode(const Graph& graph, const Node& node, const SpatialGrid& grid);

// Judges `op`. `inputs` are the placements of its inputs; `output` is the shape of the whole
// result. The network's own inputs are cut into equal stripes of multiples of `multiple` rows.
Judgement Judge(const Operator& op, const std::vector<Placement>& inputs, const Shape& output,
                const SpatialGrid& grid, int multiple = 1);

// Returns the number of groups of channels, in each image, whose means and variances an operator
// computes over all positions; 0 for operators that compute none.
int64_t SummedGroups(const Operator& op);

// Returns the window of a convolution or pooling along an axis; none for other operators.
std::optional<PaddedWindow> WindowAlong(const Operator& op, size_t axis);

// Returns the number of rows of each part, without stored padding.
std::vector<int64_t> RowsOfImage(const AxisPlacement& axis);

}  // namespace ucudnn::planner
