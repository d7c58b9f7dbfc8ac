// The reasons for which a kernel may be cut into tiles (convolution/tiles.h). A pure function.
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
// elements in 32 bits do not serve such a convolution, so that cuDNN has only one or two slow
// engines for it; but they serve tiles of it.
bool IsVast(const ConvolutionProblem& problem, int64_t most_span = kMostViewSpan);

// Conditions beside the problem that decide whether tiles are used.
struct TileConditions {
  bool allowed = true;  // by UCUDNN_TILES
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  size_t need_bytes = 0;  // workspace of the engine that the program would run undivided
  size_t user_limit = 0;  // limit of that workspace
  size_t l2_bytes = 0;    // size of the device's L2 cache; 0: unknown
  int64_t most_span = kMostViewSpan;  // see IsVast
};

// Returns what tiles are good for. Tiles need a limit that excludes what the program would run, or
// a reason why they may be faster. The reasons are: the policy looks everywhere; fast engines serve
// only parts of one image (IsVast); or, with channels first, fast engines convert x and y in the
// workspace, and the copies of not even one image stay in the L2 cache. All other tiles would be
// measured in vain.
TileUse UseOfTiles(const ConvolutionProblem& problem, const TileConditions& conditions);

}  // namespace ucudnn::planning
