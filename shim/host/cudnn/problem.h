// Converts cuDNN's descriptors to the engines' description of a convolution, and asks the engines
// for an algorithm's workspace. Thread-safe.
#pragma once

#include "shim/host/cudnn/api.h"
#include "shim/host/engines/engine.h"

namespace hostgpu {

// The bytes of each operand from its first to its last element.
struct OperandBytes {
  size_t x, w, y;
};

struct Problem {
  ConvolutionShape shape;
  OperandBytes bytes;
  size_t element_bytes;       // of x and w; the elements of y have the size of y's type
  cudnnMathType_t math_type;  // in answers to queries: FMA if the descriptor has it, else default
};

// Sets `problem`. x, w and y are the image, filter and output of the forward convolution for each
// `operation`. Returns BAD_PARAM if the descriptors contradict each other. Returns NOT_SUPPORTED
// for types other than fp32, fp16, bf16, fp64 and cuDNN's int8 configurations, for other layouts,
// and for negative strides.
cudnnStatus_t Describe(Operation operation, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                       cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                       Problem* problem);

// These functions set `engine_type` to the engines' type for a cuDNN type, or return false if there
// is none. EngineType accepts no integers; OperandType, which is for graphs, also accepts INT8 and
// INT32.
bool EngineType(cudnnDataType_t type, DataType* engine_type);
bool OperandType(int type, DataType* engine_type);

// Returns true if the engines can accumulate elements of type `data` in `compute`.
bool IsComputeTypeFor(DataType data, cudnnDataType_t compute);

// Reads a scaling factor, which is a double for fp64 tensors and otherwise a float.
double ReadScale(const void* scale, DataType type);

// Returns the number of algorithms of the operation; their numbers begin with 0.
int AlgorithmCount(Operation operation);

// Sets `bytes` to the workspace that `algorithm` needs. Returns BAD_PARAM for an invalid number,
// and NOT_SUPPORTED if the algorithm does not support the problem.
cudnnStatus_t RequiredWorkspace(const Problem& problem, int algorithm, size_t* bytes);

}  // namespace hostgpu
