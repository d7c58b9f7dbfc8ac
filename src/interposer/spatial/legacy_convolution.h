// A convolution of the legacy API that is split over ranks.
#pragma once

#include "interposer/spatial/split_operation.h"

namespace ucudnn::interposer {

// Runs the call. `own` makes the rank's own call. REQUIRES: calls are split, and the program has
// not excluded this call (Splitter::enabled).
cudnnStatus_t RunLegacyConvolution(const SplitContext& context, const cudnn::ConvolutionCall& call,
                                   spatial::LocalCall& own);

}  // namespace ucudnn::interposer
