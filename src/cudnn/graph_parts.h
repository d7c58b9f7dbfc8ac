// Makes the descriptors of an operation graph with a convolution, and of a plan of the graph.
// Thread-safe as far as cuDNN is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convolution/engine_id.h"
#include "convolution/problem.h"
#include "cudnn/backend.h"

namespace ucudnn::cudnn {

Status SetIntegers(BackendDescriptor& to, cudnnBackendAttributeName_t name,
                   const std::vector<int64_t>& values);
Status SetPart(BackendDescriptor& to, cudnnBackendAttributeName_t name,
               cudnnBackendDescriptor_t part);

// Returns `values` without d in 2-D.
std::vector<int64_t> Axes(const ConvolutionProblem& problem, const Spatial& values);

struct TensorParts {
  int64_t uid = 0;
  DataType type = DataType::kFloat;
  std::vector<int64_t> dims, strides;
  int64_t alignment = 1;  // bytes
  bool is_virtual = false;
};
Result<BackendDescriptor> MakeTensor(const Functions& functions, const TensorParts& parts);

struct Scales {
  double alpha = 1, beta = 0;
};
// Makes the operation of `problem` (the convolution or one of its gradients) on these tensors.
// cuDNN copies the descriptors x, w and y, so they may be destroyed afterwards.
Result<BackendDescriptor> MakeConvolution(const Functions& functions,
                                          const ConvolutionProblem& problem,
                                          cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                                          cudnnBackendDescriptor_t y, const Scales& scales);

Result<BackendDescriptor> MakeGraph(const Functions& functions, const PlanDevice& device,
                                    std::span<const cudnnBackendDescriptor_t> operations);

// Returns the configuration of an engine of `graph`. The names of fused operations in the engine's
// name are ignored.
Result<BackendDescriptor> MakeConfiguration(const Functions& functions, const PlanDevice& device,
                                            cudnnBackendDescriptor_t graph,
                                            const EngineId::Graph& engine);

// Returns the best `most` configurations that the heuristics (mode B) choose for `graph`, the best
// first; empty if they choose none.
std::vector<BackendDescriptor> ChosenConfigurations(const Functions& functions,
                                                    const PlanDevice& device,
                                                    cudnnBackendDescriptor_t graph, int64_t most);

// Returns the finalized plan of a configuration.
Result<BackendDescriptor> MakePlan(const Functions& functions, const PlanDevice& device,
                                   cudnnBackendDescriptor_t configuration);

}  // namespace ucudnn::cudnn
