// The parts that batch normalisation's Ex calls share with the plain ones. These functions are
// hidden: a hook may stand before the exported ones, and must not take the stand-in's own call for
// the program's.
#pragma once

#include "shim/host/cudnn/api.h"

namespace hostgpu {

bool IsBatchNormMode(cudnnBatchNormMode_t mode);

// Checks descriptors that are not null. `other` is y, dy or dx; the parameters must be those that
// cudnnDeriveBNTensorDescriptor makes from x.
cudnnStatus_t CheckNormalizedShapes(cudnnBatchNormMode_t mode, cudnnTensorDescriptor_t x,
                                    cudnnTensorDescriptor_t other,
                                    cudnnTensorDescriptor_t parameters);

}  // namespace hostgpu

// cudnnBatchNormalizationForwardTraining and cudnnBatchNormalizationBackward under hidden names.
#pragma GCC visibility push(hidden)
extern "C" decltype(cudnnBatchNormalizationForwardTraining) hostgpuTrainBatchNorm;
extern "C" decltype(cudnnBatchNormalizationBackward) hostgpuUnlearnBatchNorm;
#pragma GCC visibility pop
