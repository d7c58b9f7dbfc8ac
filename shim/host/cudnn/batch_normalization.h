// Functions that the plain and the Ex calls of batch normalisation share. They are hidden symbols,
// because a program may have replaced the exported functions by hooks, which must not see the
// stand-in's internal calls.
#pragma once

#include "shim/host/cudnn/api.h"

namespace hostgpu {

bool IsBatchNormMode(cudnnBatchNormMode_t mode);

// Checks the shapes of descriptors that are not null. `other` is y, dy or dx; `parameters` must
// have the shape that cudnnDeriveBNTensorDescriptor derives from x.
cudnnStatus_t CheckNormalizedShapes(cudnnBatchNormMode_t mode, cudnnTensorDescriptor_t x,
                                    cudnnTensorDescriptor_t other,
                                    cudnnTensorDescriptor_t parameters);

}  // namespace hostgpu

// Hidden names for cudnnBatchNormalizationForwardTraining and cudnnBatchNormalizationBackward.
#pragma GCC visibility push(hidden)
extern "C" decltype(cudnnBatchNormalizationForwardTraining) hostgpuTrainBatchNorm;
extern "C" decltype(cudnnBatchNormalizationBackward) hostgpuUnlearnBatchNorm;
#pragma GCC visibility pop
