// What becomes of one operator of a network whose images are cut: whether the ranks' results are
// the whole one's, and how those lie. Pure functions.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "planner/graph/graph.h"
#include "planner/striping/cut_windows.h"
#include "planner/striping/placement.h"

namespace ucudnn::planner {

// By rising trouble. kExact: what each rank computes of its own stripe, with what ucudnn exchanges
// under the call, is its stripe of the whole. kGather: it needs all positions, so the program
// gathers them first. kConvert: as it is, the cut would change it; through ucudnn.spatial.convert
// it is exact. kUnvouched: nobody can say that it equals one process. kRefused: by both.
enum class Verdict { kExact, kGather, kConvert, kUnvouched, kRefused };
const char* VerdictName(Verdict verdict);  // "exact", "gather", "convert", "unvouched", "refused"

// What UCUDNN_SPATIAL_ONE has to say where maps have one row on every rank.
enum class OnesAre { kEither, kSplit, kReplicated };

struct Judgement {
  Verdict verdict = Verdict::kExact;
  std::string why;                // of other verdicts than kExact
  bool never_as_it_is = false;    // at no size of the image as a program's own call
  bool never_converted = false;   // nor through convert
  bool pools_over_ranks = false;  // a window that covers the whole axis
  OnesAre ones = OnesAre::kEither;
  // Of convolutions and pooling, along each axis of the input that is cut; those of a transposed
  // convolution are its gradient's.
  std::array<std::optional<CutWindows>, kMaxSpatial> windows;
  Placement output;  // of a refused operator: equal stripes, so that what follows can be judged
};

// The grid as an input of `graph` meets it: an input of one row, beside images of several, is the
// same on all ranks.
SpatialGrid GridOfNode(const Graph& graph, const Node& node, const SpatialGrid& grid);

// `inputs` are those of `op`, of which `output` is the whole result's shape. The network's own
// inputs lie in equal stripes of multiples of `multiple` rows.
Judgement Judge(const Operator& op, const std::vector<Placement>& inputs, const Shape& output,
                const SpatialGrid& grid, int multiple = 1);

// Into how many groups of channels an operator divides each image to take their means and variances
// over all positions; 0: it takes none.
int64_t SummedGroups(const Operator& op);

// The window of a convolution or pooling along an axis; none of other operators.
std::optional<PaddedWindow> WindowAlong(const Operator& op, size_t axis);

// The rows of an axis that are not padding that stands there.
std::vector<int64_t> RowsOfImage(const AxisPlacement& axis);

}  // namespace ucudnn::planner
