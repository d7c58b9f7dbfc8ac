// Batch normalisation of the legacy API in training, where calls are split over ranks.
#pragma once

#include "cudnn/norm_call.h"
#include "interposer/process.h"

namespace ucudnn::interposer {

// `spaces` is what an Ex call has beside; null: the call is none. Both require that the process's
// calls are split, and the program did not take its own out.
cudnnStatus_t RunNorm(Process& process, const cudnn::NormTraining& call,
                      const cudnn::NormSpaces* spaces);
cudnnStatus_t RunNorm(Process& process, const cudnn::NormGradient& call,
                      const cudnn::NormSpaces* spaces);

}  // namespace ucudnn::interposer
