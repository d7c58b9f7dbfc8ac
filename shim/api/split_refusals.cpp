#include "api/split_refusals.h"

#include <cudnn.h>

#include <array>

#include "api/process.h"

// The headers are of the oldest supported cuDNN. They mark functions as deprecated, but newer
// releases still have these functions.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define UCUDNN_REFUSED_WHEN_SPLIT(F)     \
  F(cudnnCTCLoss)                        \
  F(cudnnCTCLoss_v8)                     \
  F(cudnnDivisiveNormalizationBackward)  \
  F(cudnnDivisiveNormalizationForward)   \
  F(cudnnFusedOpsExecute)                \
  F(cudnnIm2Col)                         \
  F(cudnnMultiHeadAttnBackwardData)      \
  F(cudnnMultiHeadAttnBackwardWeights)   \
  F(cudnnMultiHeadAttnForward)           \
  F(cudnnNormalizationBackward)          \
  F(cudnnNormalizationForwardTraining)   \
  F(cudnnRNNBackwardData_v8)             \
  F(cudnnRNNBackwardWeights_v8)          \
  F(cudnnRNNForward)                     \
  F(cudnnReduceTensor)                   \
  F(cudnnSoftmaxBackward)                \
  F(cudnnSoftmaxForward)                 \
  F(cudnnSpatialTfGridGeneratorBackward) \
  F(cudnnSpatialTfGridGeneratorForward)  \
  F(cudnnSpatialTfSamplerBackward)       \
  F(cudnnSpatialTfSamplerForward)

// Functions whose results each depend on one position of an image only. So they are right on a
// stripe. They are refused only if the process's calls should be split but cannot be.
#define UCUDNN_LOCAL_WHEN_SPLIT(F)           \
  F(cudnnBatchNormalizationForwardInference) \
  F(cudnnLRNCrossChannelBackward)            \
  F(cudnnLRNCrossChannelForward)             \
  F(cudnnNormalizationForwardInference)

// Functions of newer releases, which the oldest release's headers do not declare. Their parameters
// are unknown, so they cannot be forwarded. They are refused even while the program's calls are
// local.
#define UCUDNN_NEWER_REFUSED_WHEN_SPLIT(F) \
  F(cudnnB2BCausalConv1dBackward)          \
  F(cudnnB2BCausalConv1dForward)           \
  F(cudnnCausalConv1dBackward)             \
  F(cudnnCausalConv1dForward)              \
  F(cudnnCausalConv1dNwhBackward)          \
  F(cudnnCausalConv1dNwhForward)           \
  F(cudnnFFTCausalConv1dBackward)          \
  F(cudnnFFTCausalConv1dForward)           \
  F(cudnnGnnAggSimpleBackward)             \
  F(cudnnGnnAggSimpleForward)              \
  F(cudnnGnnMhaGatBackward)                \
  F(cudnnGnnMhaGatForward)                 \
  F(cudnnGnnMhaGatV2Backward)              \
  F(cudnnGnnMhaGatV2Forward)               \
  F(cudnnLongFFTCausalConv1dBackward)      \
  F(cudnnLongFFTCausalConv1dForward)

namespace ucudnn {
namespace {

cudnnStatus_t RefuseByName(const interposer::Splitter& splitter, const char* name) noexcept {
  try {
    return splitter.Refuse(splitter.refusal().empty()
                               ? std::string(name) + " is not split over ranks yet"
                               : splitter.refusal());
  } catch (...) {
    return CUDNN_STATUS_NOT_SUPPORTED;  // there was no memory for the message
  }
}

// A softmax over the channels of each position is right on a stripe.
bool IsLocal(cudnnSoftmaxMode_t mode) { return mode == CUDNN_SOFTMAX_MODE_CHANNEL; }
template <typename Argument>
bool IsLocal(const Argument&) {
  return false;
}

template <typename Name, typename Signature>
struct Refused;
template <typename Name, typename... Arguments>
struct Refused<Name, cudnnStatus_t(Arguments...)> {
  static inline std::atomic<void*> real = nullptr;

  static cudnnStatus_t Call(Arguments... arguments) {
    interposer::Splitter& splitter = ProcessInterposer()->splitter();
    const bool is_local =
        splitter.refusal().empty() && (Name::kIsLocal || (IsLocal(arguments) || ...));
    if (!is_local && !splitter.RunsAlone()) return RefuseByName(splitter, Name::kText);
    using Function = cudnnStatus_t (*)(Arguments...);
    return reinterpret_cast<Function>(real.load(std::memory_order_acquire))(arguments...);
  }
};

#define UCUDNN_NAME_OF(name, is_local)          \
  struct Name_##name {                          \
    static constexpr const char* kText = #name; \
    static constexpr bool kIsLocal = is_local;  \
  };
#define UCUDNN_REFUSED_NAME(name) UCUDNN_NAME_OF(name, false)
#define UCUDNN_LOCAL_NAME(name) UCUDNN_NAME_OF(name, true)
UCUDNN_REFUSED_WHEN_SPLIT(UCUDNN_REFUSED_NAME)
UCUDNN_LOCAL_WHEN_SPLIT(UCUDNN_LOCAL_NAME)
// By the x86-64 ABI the caller removes the arguments from the stack, so this function accepts any
// arguments.
#define UCUDNN_NEWER_NAME(name)                                  \
  cudnnStatus_t Refuse_##name() noexcept {                       \
    return RefuseByName(ProcessInterposer()->splitter(), #name); \
  }
UCUDNN_NEWER_REFUSED_WHEN_SPLIT(UCUDNN_NEWER_NAME)
#undef UCUDNN_NEWER_NAME
#undef UCUDNN_LOCAL_NAME
#undef UCUDNN_REFUSED_NAME
#undef UCUDNN_NAME_OF

}  // namespace

std::span<const Hook> SplitRefusals() {
#define UCUDNN_HOOK(name)                                                             \
  Hook{#name, reinterpret_cast<void*>(&Refused<Name_##name, decltype(::name)>::Call), \
       &Refused<Name_##name, decltype(::name)>::real},
#define UCUDNN_NEWER_HOOK(name) Hook{#name, reinterpret_cast<void*>(&Refuse_##name)},
  static const std::array hooks = {UCUDNN_REFUSED_WHEN_SPLIT(UCUDNN_HOOK) UCUDNN_LOCAL_WHEN_SPLIT(
      UCUDNN_HOOK) UCUDNN_NEWER_REFUSED_WHEN_SPLIT(UCUDNN_NEWER_HOOK)};
#undef UCUDNN_NEWER_HOOK
#undef UCUDNN_HOOK
  return hooks;
}

}  // namespace ucudnn
