// Batch normalisation of the legacy API in training, split over ranks.
#pragma once

#include "cudnn/norm_call.h"
#include "interposer/spatial/splitter.h"

namespace ucudnn::interposer {

// Runs the call. `spaces` has the further arguments of a function whose name ends in Ex; null for
// the function without Ex. REQUIRES: calls are split, and the program has not excluded this call
// (Splitter::enabled).
cudnnStatus_t RunNorm(const SplitContext& context, const cudnn::NormTraining& call,
                      const cudnn::NormSpaces* spaces);
cudnnStatus_t RunNorm(const SplitContext& context, const cudnn::NormGradient& call,
                      const cudnn::NormSpaces* spaces);

}  // namespace ucudnn::interposer
