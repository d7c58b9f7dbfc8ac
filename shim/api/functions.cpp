// Defines the functions of <ucudnn/ucudnn.h> that are named after functions of cuDNN 9
// (ucudnnConvolutionForward). They call the same targets as the drop-in's exports.
#include <tuple>

#include "api/answers.h"
#include "api/process.h"
#include "options/options.h"
#include "ucudnn/ucudnn.h"

namespace {

// Gives the parameter types of a function by index.
template <typename Function>
struct Parameters;
template <typename... Types>
struct Parameters<cudnnStatus_t(Types...)> {
  template <size_t index>
  using At = std::tuple_element_t<index, std::tuple<Types...>>;
};

// Tells ucudnn the handle's present stream, because the program may have set it by cuDNN's own
// cudnnSetStream, which ucudnn does not see.
void Follow(cudnnHandle_t handle) noexcept {
  if (handle == nullptr || ucudnn::FixedOptions().mode == ucudnn::Mode::kOff) return;
  try {
    if (auto* const interposer = ucudnn::ProcessInterposer())
      interposer->sessions().FollowStream(handle);
  } catch (...) {
    // Memory ran out while the interposer was being made. There are no sessions yet whose stream
    // could be out of date.
  }
}

}  // namespace

#define PARAMETER(name, index) Parameters<decltype(::cudnn##name)>::At<index> a##index
#define PARAMETERS_1(name) PARAMETER(name, 0)
#define PARAMETERS_2(name) PARAMETERS_1(name), PARAMETER(name, 1)
#define PARAMETERS_7(name)                                                        \
  PARAMETERS_2(name), PARAMETER(name, 2), PARAMETER(name, 3), PARAMETER(name, 4), \
      PARAMETER(name, 5), PARAMETER(name, 6)
#define PARAMETERS_8(name) PARAMETERS_7(name), PARAMETER(name, 7)
#define PARAMETERS_13(name)                                                        \
  PARAMETERS_8(name), PARAMETER(name, 8), PARAMETER(name, 9), PARAMETER(name, 10), \
      PARAMETER(name, 11), PARAMETER(name, 12)
#define PARAMETERS_18(name)                                                           \
  PARAMETERS_13(name), PARAMETER(name, 13), PARAMETER(name, 14), PARAMETER(name, 15), \
      PARAMETER(name, 16), PARAMETER(name, 17)
#define ARGUMENTS_1 a0
#define ARGUMENTS_2 ARGUMENTS_1, a1
#define ARGUMENTS_7 ARGUMENTS_2, a2, a3, a4, a5, a6
#define ARGUMENTS_8 ARGUMENTS_7, a7
#define ARGUMENTS_13 ARGUMENTS_8, a8, a9, a10, a11, a12
#define ARGUMENTS_18 ARGUMENTS_13, a13, a14, a15, a16, a17

// Defines the function ucudnn`name` with `count` parameters. The compiler compares its type with
// the declaration in the header.
#define ENTRY(name, count)                                \
  cudnnStatus_t ucudnn##name(PARAMETERS_##count(name)) {  \
    return UCUDNN_ANSWER(cudnn##name)(ARGUMENTS_##count); \
  }
#define ENTRY_OF_HANDLE(name, count)                      \
  cudnnStatus_t ucudnn##name(PARAMETERS_##count(name)) {  \
    Follow(a0);                                           \
    return UCUDNN_ANSWER(cudnn##name)(ARGUMENTS_##count); \
  }

extern "C" {

ENTRY(Create, 1)
ENTRY(Destroy, 1)
ENTRY(SetStream, 2)
ENTRY_OF_HANDLE(ConvolutionForward, 13)
ENTRY_OF_HANDLE(ConvolutionBiasActivationForward, 18)
ENTRY_OF_HANDLE(ConvolutionBackwardData, 13)
ENTRY_OF_HANDLE(ConvolutionBackwardFilter, 13)
ENTRY_OF_HANDLE(GetConvolutionForwardWorkspaceSize, 7)
ENTRY_OF_HANDLE(GetConvolutionBackwardDataWorkspaceSize, 7)
ENTRY_OF_HANDLE(GetConvolutionBackwardFilterWorkspaceSize, 7)
ENTRY_OF_HANDLE(GetConvolutionForwardAlgorithm_v7, 8)
ENTRY_OF_HANDLE(GetConvolutionBackwardDataAlgorithm_v7, 8)
ENTRY_OF_HANDLE(GetConvolutionBackwardFilterAlgorithm_v7, 8)
ENTRY_OF_HANDLE(FindConvolutionForwardAlgorithm, 8)
ENTRY_OF_HANDLE(FindConvolutionBackwardDataAlgorithm, 8)
ENTRY_OF_HANDLE(FindConvolutionBackwardFilterAlgorithm, 8)
ENTRY_OF_HANDLE(FindConvolutionForwardAlgorithmEx, 13)
ENTRY_OF_HANDLE(FindConvolutionBackwardDataAlgorithmEx, 13)
ENTRY_OF_HANDLE(FindConvolutionBackwardFilterAlgorithmEx, 13)

}  // extern "C"
