// The functions of the real cuDNN that ucudnn calls, found at run time. Thread-safe; read-only
// after loading. The table is a plain value, so that tests can replace single functions.
#pragma once

#include <cudnn.h>

#include "base/status.h"

#if CUDNN_VERSION < 92300
// cuDNN 9.23 declares this function. It sets *bytes to the workspace that `plan` needs to run
// `pack`. The shapes of `pack` may differ from the plan's shapes.
extern "C" cudnnStatus_t CUDNNWINAPI
cudnnGetExecutionPlanWorkspaceSize(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                   cudnnBackendDescriptor_t pack, size_t* bytes);
#endif

#define UCUDNN_CUDNN_FUNCTIONS(F)                   \
  F(cudnnConvolutionBackwardData)                   \
  F(cudnnConvolutionBackwardFilter)                 \
  F(cudnnConvolutionBiasActivationForward)          \
  F(cudnnConvolutionForward)                        \
  F(cudnnCreate)                                    \
  F(cudnnCreateConvolutionDescriptor)               \
  F(cudnnCreateFilterDescriptor)                    \
  F(cudnnCreateTensorDescriptor)                    \
  F(cudnnDestroy)                                   \
  F(cudnnDestroyConvolutionDescriptor)              \
  F(cudnnDestroyFilterDescriptor)                   \
  F(cudnnDestroyTensorDescriptor)                   \
  F(cudnnFindConvolutionBackwardDataAlgorithm)      \
  F(cudnnFindConvolutionBackwardDataAlgorithmEx)    \
  F(cudnnFindConvolutionBackwardFilterAlgorithm)    \
  F(cudnnFindConvolutionBackwardFilterAlgorithmEx)  \
  F(cudnnFindConvolutionForwardAlgorithm)           \
  F(cudnnFindConvolutionForwardAlgorithmEx)         \
  F(cudnnGetActivationDescriptor)                   \
  F(cudnnGetConvolutionBackwardDataAlgorithm_v7)    \
  F(cudnnGetConvolutionBackwardDataWorkspaceSize)   \
  F(cudnnGetConvolutionBackwardFilterAlgorithm_v7)  \
  F(cudnnGetConvolutionBackwardFilterWorkspaceSize) \
  F(cudnnGetConvolutionForwardAlgorithm_v7)         \
  F(cudnnGetConvolutionForwardWorkspaceSize)        \
  F(cudnnGetConvolutionGroupCount)                  \
  F(cudnnGetConvolutionMathType)                    \
  F(cudnnGetConvolutionNdDescriptor)                \
  F(cudnnGetErrorString)                            \
  F(cudnnGetFilterNdDescriptor)                     \
  F(cudnnGetStream)                                 \
  F(cudnnGetTensorNdDescriptor)                     \
  F(cudnnGetVersion)                                \
  F(cudnnSetConvolutionGroupCount)                  \
  F(cudnnSetConvolutionMathType)                    \
  F(cudnnSetConvolutionNdDescriptor)                \
  F(cudnnSetFilterNdDescriptor)                     \
  F(cudnnSetStream)                                 \
  F(cudnnSetTensorNdDescriptor)

// The graph API. If a library lacks one of these functions, plans of the graph API run unchanged.
#define UCUDNN_CUDNN_GRAPH_FUNCTIONS(F) \
  F(cudnnBackendCreateDescriptor)       \
  F(cudnnBackendDestroyDescriptor)      \
  F(cudnnBackendExecute)                \
  F(cudnnBackendFinalize)               \
  F(cudnnBackendGetAttribute)           \
  F(cudnnBackendSetAttribute)

// Functions for summing partials (partial_sum.h). cuDNN deprecates them, so a later release may
// lack them; then they are null.
#define UCUDNN_CUDNN_OP_TENSOR_FUNCTIONS(F) \
  F(cudnnCreateOpTensorDescriptor)          \
  F(cudnnDestroyOpTensorDescriptor)         \
  F(cudnnOpTensor)                          \
  F(cudnnSetOpTensorDescriptor)

// Functions that only split calls need (spatial/). cuDNN deprecates them, so a later release may
// lack them; then they are null.
#define UCUDNN_CUDNN_SPLIT_FUNCTIONS(F)       \
  F(cudnnAddTensor)                           \
  F(cudnnBatchNormalizationBackward)          \
  F(cudnnBatchNormalizationBackwardEx)        \
  F(cudnnBatchNormalizationForwardInference)  \
  F(cudnnBatchNormalizationForwardTraining)   \
  F(cudnnBatchNormalizationForwardTrainingEx) \
  F(cudnnConvolutionBackwardBias)             \
  F(cudnnSetTensor)

// Pooling functions, which ucudnn itself calls only for split calls. cuDNN deprecates them, so a
// later release may lack them; then they are null.
#define UCUDNN_CUDNN_POOLING_FUNCTIONS(F) \
  F(cudnnCreatePoolingDescriptor)         \
  F(cudnnDestroyPoolingDescriptor)        \
  F(cudnnGetPoolingNdDescriptor)          \
  F(cudnnPoolingBackward)                 \
  F(cudnnPoolingForward)                  \
  F(cudnnSetPoolingNdDescriptor)

// Functions that only layer-parallel multigrid calls (planner/multigrid/device). cuDNN deprecates
// them, so a later release may lack them; then they are null.
#define UCUDNN_CUDNN_ACTIVATION_FUNCTIONS(F) \
  F(cudnnActivationBackward)                 \
  F(cudnnActivationForward)                  \
  F(cudnnCreateActivationDescriptor)         \
  F(cudnnCreateReduceTensorDescriptor)       \
  F(cudnnDestroyActivationDescriptor)        \
  F(cudnnDestroyReduceTensorDescriptor)      \
  F(cudnnGetReductionWorkspaceSize)          \
  F(cudnnReduceTensor)                       \
  F(cudnnSetActivationDescriptor)            \
  F(cudnnSetReduceTensorDescriptor)

// Functions of the graph API that older releases lack. A function that the library lacks is null.
#define UCUDNN_CUDNN_NEWER_FUNCTIONS(F) \
  F(cudnnBackendInitialize)             \
  F(cudnnBackendPopulateCudaGraph)      \
  F(cudnnBackendUpdateCudaGraph)        \
  F(cudnnGetExecutionPlanWorkspaceSize)

namespace ucudnn::cudnn {

struct Functions {
#define UCUDNN_MEMBER(name) decltype(&::name) name = nullptr;
  UCUDNN_CUDNN_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_CUDNN_GRAPH_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_CUDNN_OP_TENSOR_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_CUDNN_SPLIT_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_CUDNN_POOLING_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_CUDNN_ACTIVATION_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_CUDNN_NEWER_FUNCTIONS(UCUDNN_MEMBER)
#undef UCUDNN_MEMBER

#define UCUDNN_PRESENT(name) &&name != nullptr
  bool HasGraphApi() const { return true UCUDNN_CUDNN_GRAPH_FUNCTIONS(UCUDNN_PRESENT); }
  bool HasOpTensor() const { return true UCUDNN_CUDNN_OP_TENSOR_FUNCTIONS(UCUDNN_PRESENT); }
  bool HasPooling() const { return true UCUDNN_CUDNN_POOLING_FUNCTIONS(UCUDNN_PRESENT); }
  bool HasActivations() const { return true UCUDNN_CUDNN_ACTIVATION_FUNCTIONS(UCUDNN_PRESENT); }
#undef UCUDNN_PRESENT
};

// Fills `functions` through `symbol`, which maps a name to its address (null: absent). Fails if a
// function of UCUDNN_CUDNN_FUNCTIONS is missing.
template <typename Symbol>
Status LoadFunctions(Symbol symbol, Functions& functions) {
  const char* missing = nullptr;
#define UCUDNN_LOAD(name)                                              \
  functions.name = reinterpret_cast<decltype(&::name)>(symbol(#name)); \
  if (functions.name == nullptr) missing = #name;
  UCUDNN_CUDNN_FUNCTIONS(UCUDNN_LOAD)
#undef UCUDNN_LOAD
#define UCUDNN_TRY(name) functions.name = reinterpret_cast<decltype(&::name)>(symbol(#name));
  UCUDNN_CUDNN_GRAPH_FUNCTIONS(UCUDNN_TRY)
  UCUDNN_CUDNN_OP_TENSOR_FUNCTIONS(UCUDNN_TRY)
  UCUDNN_CUDNN_SPLIT_FUNCTIONS(UCUDNN_TRY)
  UCUDNN_CUDNN_POOLING_FUNCTIONS(UCUDNN_TRY)
  UCUDNN_CUDNN_ACTIVATION_FUNCTIONS(UCUDNN_TRY)
  UCUDNN_CUDNN_NEWER_FUNCTIONS(UCUDNN_TRY)
#undef UCUDNN_TRY
  if (missing != nullptr) return Status::Error(std::string("the real cuDNN lacks ") + missing);
  return Status::Ok();
}

// Converts `status` to a Status whose message names `action`.
Status CudnnStatus(const Functions& functions, cudnnStatus_t status, const char* action);

}  // namespace ucudnn::cudnn
