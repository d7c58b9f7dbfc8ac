// Judges one operator of a network whose images are cut: whether the ranks' results equal the whole
// result, and how they are placed. Pure functions.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "planner/graph/graph.h"
#include "planner/striping/cut_windows.h"
#include "planner/striping/placement.h"

namespace ucudnn::planner {

// Verdicts in ascending order of trouble. kExact: each rank computes its stripe of the whole from
// its own stripe and from what ucudnn exchanges under the call. kGather: the operator needs all
// positions, so the program gathers them first. kConvert: the unchanged program would compute
// another result, but ucudnn.spatial.convert makes it exact. kUnvouched: whether the result equals
// one process's is unknown. kRefused: refused with and without convert.
enum class Verdict { kExact, kGather, kConvert, kUnvouched, kRefused };
const char* VerdictName(Verdict verdict);  // "exact", "gather", "convert", "unvouched", "refused"

// The value that UCUDNN_SPATIAL_ONE must have if maps have one row on every rank.
enum class OnesAre { kEither, kSplit, kReplicated };

struct Judgement {
  Verdict verdict = Verdict::kExact;
  std::string why;                // for verdicts other than kExact
  bool never_as_it_is = false;    // a program's own call fails at every size of the image
  bool never_converted = false;   // convert fails at every size of the image
  bool pools_over_ranks = false;  // a window covers the whole axis
  OnesAre ones = OnesAre::kEither;
  // For convolutions and pooling: windows along each axis of the input that is cut. For a
  // transposed convolution: its gradient's windows.
  std::array<std::optional<CutWindows>, kMaxSpatial> windows;
  Placement output;  // for a refused operator: equal stripes, so that later operators can be judged
};

// Returns the grid for an input of `graph`. An input of one row, beside images of several rows, is
// the same on all ranks.
SpatialGrid GridOfNode(const Graph& graph, const Node& node, const SpatialGrid& grid);

// `inputs` are the inputs of `op`; `output` is the shape of the whole result. The network's own
// inputs are in equal stripes of multiples of `multiple` rows.
Judgement Judge(const Operator& op, const std::vector<Placement>& inputs, const Shape& output,
                const SpatialGrid& grid, int multiple = 1);

// Returns the number of groups of channels of each image whose means and variances an operator
// takes over all positions; 0 if it takes none.
int64_t SummedGroups(const Operator& op);

// Returns the window of a convolution or pooling along an axis; none for other operators.
std::optional<PaddedWindow> WindowAlong(const Operator& op, size_t axis);

// Returns the rows of an axis without stored padding.
std::vector<int64_t> RowsOfImage(const AxisPlacement& axis);

}  // namespace ucudnn::planner
