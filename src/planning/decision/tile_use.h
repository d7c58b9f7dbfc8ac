// The purposes for which a kernel may be cut into tiles (convolution/tiles.h). Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "options/options.h"

namespace ucudnn::planning {

enum class TileUse : int32_t {
  kNone,
  kToFit,   // to fit the user's limit if no division of the mini-batch does
  kToGain,  // to gain time
};

// Returns whether an image of x or y spans more than `most_span` elements. Engines that count
// elements in 32 bits can run tiles of such a convolution, but not the undivided convolution. For
// the undivided convolution cuDNN has only one or two slow engines.
bool IsVast(const ConvolutionProblem& problem, int64_t most_span = kMostViewSpan);

// The conditions, besides the problem, from which UseOfTiles decides.
struct TileConditions {
  bool allowed = true;  // false: UCUDNN_TILES forbids tiles
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  size_t need_bytes = 0;  // workspace of the engine that the program would run undivided
  size_t user_limit = 0;  // ceiling of that workspace
  size_t l2_bytes = 0;    // size of the device's L2 cache; 0: unknown
  int64_t most_span = kMostViewSpan;  // see IsVast
};

// Returns the purpose of tiles. Returns kNone if tiles are forbidden, if the policy divides
// nothing, or if the mini-batch exceeds kMostTiles. Otherwise returns kToFit if the limit excludes
// the engine that the program would run. Otherwise returns kToGain if there is one of these reasons
// why tiles may be faster, and kNone if there is no reason, because measuring tiles would then be
// in vain:
//  - Fast engines support only parts of one image (IsVast).
//  - The policy is kAll, which tries everything.
//  - The policy is kAuto, and fast engines convert x and y in the workspace, because channels come
//    first.
// The copies of a single image exceed the L2 cache.
TileUse UseOfTiles(const ConvolutionProblem& problem, const TileConditions& conditions);

}  // namespace ucudnn::planning
