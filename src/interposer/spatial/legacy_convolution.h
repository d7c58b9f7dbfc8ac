// A convolution of the legacy API where calls are split over ranks.
#pragma once

#include "interposer/process.h"

namespace ucudnn::interposer {

// `own` makes the rank's own call. Requires that the process's calls are split, and the program did
// not take its own out.
cudnnStatus_t RunLegacyConvolution(Process& process, const cudnn::ConvolutionCall& call,
                                   spatial::LocalCall& own);

}  // namespace ucudnn::interposer
