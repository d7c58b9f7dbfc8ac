// The real cuDNN and the stand-in side by side in one process. Descriptor functions of the
// real library work without a GPU, which makes it the oracle for the stand-in's.
#pragma once

#include <cudnn.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

// Every function whose answers are compared.
#define COMPARED_FUNCTIONS(F)                                 \
  F(cudnnCreateTensorDescriptor)                              \
  F(cudnnDestroyTensorDescriptor)                             \
  F(cudnnSetTensor4dDescriptor)                               \
  F(cudnnSetTensor4dDescriptorEx)                             \
  F(cudnnGetTensor4dDescriptor)                               \
  F(cudnnSetTensorNdDescriptor)                               \
  F(cudnnSetTensorNdDescriptorEx)                             \
  F(cudnnGetTensorNdDescriptor)                               \
  F(cudnnGetTensorSizeInBytes)                                \
  F(cudnnCreateFilterDescriptor)                              \
  F(cudnnDestroyFilterDescriptor)                             \
  F(cudnnSetFilter4dDescriptor)                               \
  F(cudnnGetFilter4dDescriptor)                               \
  F(cudnnSetFilterNdDescriptor)                               \
  F(cudnnGetFilterNdDescriptor)                               \
  F(cudnnGetFilterSizeInBytes)                                \
  F(cudnnCreateConvolutionDescriptor)                         \
  F(cudnnDestroyConvolutionDescriptor)                        \
  F(cudnnSetConvolutionMathType)                              \
  F(cudnnGetConvolutionMathType)                              \
  F(cudnnSetConvolutionGroupCount)                            \
  F(cudnnGetConvolutionGroupCount)                            \
  F(cudnnSetConvolutionReorderType)                           \
  F(cudnnGetConvolutionReorderType)                           \
  F(cudnnSetConvolution2dDescriptor)                          \
  F(cudnnGetConvolution2dDescriptor)                          \
  F(cudnnSetConvolutionNdDescriptor)                          \
  F(cudnnGetConvolutionNdDescriptor)                          \
  F(cudnnGetConvolution2dForwardOutputDim)                    \
  F(cudnnGetConvolutionNdForwardOutputDim)                    \
  F(cudnnCreateActivationDescriptor)                          \
  F(cudnnDestroyActivationDescriptor)                         \
  F(cudnnSetActivationDescriptor)                             \
  F(cudnnGetActivationDescriptor)                             \
  F(cudnnSetActivationDescriptorSwishBeta)                    \
  F(cudnnGetActivationDescriptorSwishBeta)                    \
  F(cudnnCreatePoolingDescriptor)                             \
  F(cudnnDestroyPoolingDescriptor)                            \
  F(cudnnSetPooling2dDescriptor)                              \
  F(cudnnGetPooling2dDescriptor)                              \
  F(cudnnSetPoolingNdDescriptor)                              \
  F(cudnnGetPoolingNdDescriptor)                              \
  F(cudnnGetPooling2dForwardOutputDim)                        \
  F(cudnnGetPoolingNdForwardOutputDim)                        \
  F(cudnnCreateOpTensorDescriptor)                            \
  F(cudnnDestroyOpTensorDescriptor)                           \
  F(cudnnSetOpTensorDescriptor)                               \
  F(cudnnGetOpTensorDescriptor)                               \
  F(cudnnDeriveBNTensorDescriptor)                            \
  F(cudnnCreate)                                              \
  F(cudnnDestroy)                                             \
  F(cudnnAddTensor)                                           \
  F(cudnnOpTensor)                                            \
  F(cudnnSetTensor)                                           \
  F(cudnnScaleTensor)                                         \
  F(cudnnActivationForward)                                   \
  F(cudnnActivationBackward)                                  \
  F(cudnnConvolutionBackwardBias)                             \
  F(cudnnPoolingForward)                                      \
  F(cudnnPoolingBackward)                                     \
  F(cudnnSoftmaxForward)                                      \
  F(cudnnSoftmaxBackward)                                     \
  F(cudnnBatchNormalizationForwardTraining)                   \
  F(cudnnBatchNormalizationForwardInference)                  \
  F(cudnnBatchNormalizationBackward)                          \
  F(cudnnBatchNormalizationForwardTrainingEx)                 \
  F(cudnnBatchNormalizationBackwardEx)                        \
  F(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize) \
  F(cudnnGetBatchNormalizationBackwardExWorkspaceSize)        \
  F(cudnnGetBatchNormalizationTrainingExReserveSpaceSize)     \
  F(cudnnBackendCreateDescriptor)                             \
  F(cudnnBackendDestroyDescriptor)                            \
  F(cudnnBackendInitialize)                                   \
  F(cudnnBackendSetAttribute)                                 \
  F(cudnnBackendGetAttribute)                                 \
  F(cudnnBackendFinalize)                                     \
  F(cudnnBackendExecute)                                      \
  F(cudnnGetVersion)                                          \
  F(cudnnGetMaxDeviceVersion)                                 \
  F(cudnnGetCudartVersion)                                    \
  F(cudnnGetProperty)                                         \
  F(cudnnGetErrorString)                                      \
  F(cudnnGraphVersionCheck)                                   \
  F(cudnnOpsVersionCheck)                                     \
  F(cudnnCnnVersionCheck)                                     \
  F(cudnnAdvVersionCheck)

struct Library {
#define DECLARE(name) decltype(&::name) name = nullptr;
  COMPARED_FUNCTIONS(DECLARE)
#undef DECLARE

  // The reason it cannot be used, or nothing.
  std::string Load(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
#define FIND(symbol)                                                    \
  symbol = reinterpret_cast<decltype(symbol)>(dlsym(library, #symbol)); \
  if (symbol == nullptr) return std::string(path) + " lacks " #symbol;
    COMPARED_FUNCTIONS(FIND)
#undef FIND
    return {};
  }
};

// Both libraries, loaded once. Skips the test where the real one is absent.
class LibraryPair : public testing::Test {
 protected:
  void SetUp() override {
    static std::string missing = real_.Load(REAL_CUDNN);
    if (!missing.empty()) GTEST_SKIP() << "no real cuDNN to compare with: " << missing;
    static std::string broken = ours_.Load(STANDIN_CUDNN);
    ASSERT_EQ(broken, "");
  }

  static inline Library real_;
  static inline Library ours_;
};
