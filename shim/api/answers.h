// Finds the targets of the cuDNN functions listed below, which libucudnn's own functions call. The
// target of a function is ucudnn's hook if there is one, else the real library's function, else a
// substitute that returns an error.
#pragma once

#include <cudnn.h>

namespace ucudnn {

#define UCUDNN_ANSWERED(F)                          \
  F(cudnnCreate)                                    \
  F(cudnnDestroy)                                   \
  F(cudnnSetStream)                                 \
  F(cudnnConvolutionForward)                        \
  F(cudnnConvolutionBiasActivationForward)          \
  F(cudnnConvolutionBackwardData)                   \
  F(cudnnConvolutionBackwardFilter)                 \
  F(cudnnGetConvolutionForwardWorkspaceSize)        \
  F(cudnnGetConvolutionBackwardDataWorkspaceSize)   \
  F(cudnnGetConvolutionBackwardFilterWorkspaceSize) \
  F(cudnnGetConvolutionForwardAlgorithm_v7)         \
  F(cudnnGetConvolutionBackwardDataAlgorithm_v7)    \
  F(cudnnGetConvolutionBackwardFilterAlgorithm_v7)  \
  F(cudnnFindConvolutionForwardAlgorithm)           \
  F(cudnnFindConvolutionBackwardDataAlgorithm)      \
  F(cudnnFindConvolutionBackwardFilterAlgorithm)    \
  F(cudnnFindConvolutionForwardAlgorithmEx)         \
  F(cudnnFindConvolutionBackwardDataAlgorithmEx)    \
  F(cudnnFindConvolutionBackwardFilterAlgorithmEx)  \
  F(cudnnGetConvolutionMathType)

enum class Answered {
#define UCUDNN_NUMBER(name) k_##name,
  UCUDNN_ANSWERED(UCUDNN_NUMBER)
#undef UCUDNN_NUMBER
};

// Returns the target of `function`. The first call looks up all targets. Thread-safe; never returns
// null, never throws.
void* AnswerOf(Answered function);

#define UCUDNN_ANSWER(name) \
  reinterpret_cast<decltype(&::name)>(::ucudnn::AnswerOf(::ucudnn::Answered::k_##name))

}  // namespace ucudnn
