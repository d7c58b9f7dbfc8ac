// Translates cuDNN's descriptors into the engines' convolution. Pure.
#pragma once

#include "shim/host/cudnn/api.h"
#include "shim/host/engines/engine.h"

namespace hostgpu {

// Bytes that the three operands span, from the first to the last element.
struct OperandBytes {
  size_t x, w, y;
};

struct Problem {
  ConvolutionShape shape;
  OperandBytes bytes;
  size_t element_bytes;       // of x and w; y's is its type's
  cudnnMathType_t math_type;  // for results: FMA if the caller insists on it
};

// x, w and y are image, filter and output of the forward convolution, whatever `operation` is.
// BAD_PARAM if the descriptors contradict each other, NOT_SUPPORTED for types other than fp32,
// fp16, bf16, fp64 and cuDNN's int8 configurations, for other layouts, and for negative strides.
cudnnStatus_t Describe(Operation operation, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                       cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                       Problem* problem);

// Sets `engine_type` to the engines' type for a tensor's type; returns false if there is none.
// Graphs have tensors of integers, too.
bool EngineType(cudnnDataType_t type, DataType* engine_type);
bool OperandType(int type, DataType* engine_type);

// Returns whether the engines may accumulate `data` in `compute`.
bool IsComputeTypeFor(DataType data, cudnnDataType_t compute);

// Reads a scaling factor: double for fp64 tensors, else float.
double ReadScale(const void* scale, DataType type);

// Returns the number of algorithms in the operation's enumeration: 0 … count-1.
int AlgorithmCount(Operation operation);

// Sets `bytes` to the bytes that `algorithm` needs. BAD_PARAM for a number that is no algorithm,
// NOT_SUPPORTED if it does not serve the problem.
cudnnStatus_t RequiredWorkspace(const Problem& problem, int algorithm, size_t* bytes);

}  // namespace hostgpu
