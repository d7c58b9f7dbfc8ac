#include "cudnn/convolution_call.h"

#include <array>

namespace ucudnn::cudnn {
namespace {

// The most entries of a ranking: up to 8 algorithms (forward has the most), each with up to 4 math
// types.
constexpr int kMaxRanking = 32;

template <typename Performance, typename Get>
cudnnStatus_t Rank(Get get, std::vector<AlgorithmPerformance>& ranking) {
  std::array<Performance, kMaxRanking> results;
  int count = 0;
  const cudnnStatus_t status = get(kMaxRanking, &count, results.data());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  ranking.clear();
  for (int i = 0; i < count && i < kMaxRanking; ++i) {
    ranking.push_back(FromPerformance(results[i]));
  }
  return status;
}

}  // namespace

cudnnStatus_t Convolve(const Functions& functions, const ConvolutionCall& call) {
  return Convolve(functions, call, call.descriptors, call.algorithm, call.beta);
}

cudnnStatus_t Convolve(const Functions& functions, const ConvolutionCall& call,
                       const Descriptors& d, int algorithm, const void* beta) {
  switch (call.operation) {
    case Operation::kForward: {
      const auto forward = static_cast<cudnnConvolutionFwdAlgo_t>(algorithm);
      if (call.bias != nullptr) {
        const BiasActivation& b = *call.bias;
        return functions.cudnnConvolutionBiasActivationForward(
            call.handle, call.alpha, d.x, call.x, d.w, call.w, d.convolution, forward,
            call.workspace, call.workspace_bytes, b.alpha2,
            call.descriptors.y != nullptr ? b.z_descriptor : d.y, b.z, b.bias_descriptor, b.bias,
            b.activation, d.y, call.y);
      }
      return functions.cudnnConvolutionForward(call.handle, call.alpha, d.x, call.x, d.w, call.w,
                                               d.convolution, forward, call.workspace,
                                               call.workspace_bytes, beta, d.y, call.y);
    }
    case Operation::kBackwardData:
      return functions.cudnnConvolutionBackwardData(
          call.handle, call.alpha, d.w, call.w, d.y, call.y, d.convolution,
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), call.workspace,
          call.workspace_bytes, beta, d.x, call.x);
    case Operation::kBackwardFilter:
      return functions.cudnnConvolutionBackwardFilter(
          call.handle, call.alpha, d.x, call.x, d.y, call.y, d.convolution,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), call.workspace,
          call.workspace_bytes, beta, d.w, call.w);
  }
  return CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t WorkspaceBytes(const Functions& functions, Operation operation, cudnnHandle_t handle,
                             const Descriptors& d, int algorithm, size_t* bytes) {
  switch (operation) {
    case Operation::kForward:
      return functions.cudnnGetConvolutionForwardWorkspaceSize(
          handle, d.x, d.w, d.convolution, d.y, static_cast<cudnnConvolutionFwdAlgo_t>(algorithm),
          bytes);
    case Operation::kBackwardData:
      return functions.cudnnGetConvolutionBackwardDataWorkspaceSize(
          handle, d.w, d.y, d.convolution, d.x,
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), bytes);
    case Operation::kBackwardFilter:
      return functions.cudnnGetConvolutionBackwardFilterWorkspaceSize(
          handle, d.x, d.y, d.convolution, d.w,
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), bytes);
  }
  return CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t RankAlgorithms(const Functions& functions, Operation operation, cudnnHandle_t handle,
                             const Descriptors& d, std::vector<AlgorithmPerformance>& ranking) {
  switch (operation) {
    case Operation::kForward:
      return Rank<cudnnConvolutionFwdAlgoPerf_t>(
          [&](int requested, int* count, cudnnConvolutionFwdAlgoPerf_t* results) {
            return functions.cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x, d.w, d.convolution,
                                                                    d.y, requested, count, results);
          },
          ranking);
    case Operation::kBackwardData:
      return Rank<cudnnConvolutionBwdDataAlgoPerf_t>(
          [&](int requested, int* count, cudnnConvolutionBwdDataAlgoPerf_t* results) {
            return functions.cudnnGetConvolutionBackwardDataAlgorithm_v7(
                handle, d.w, d.y, d.convolution, d.x, requested, count, results);
          },
          ranking);
    case Operation::kBackwardFilter:
      return Rank<cudnnConvolutionBwdFilterAlgoPerf_t>(
          [&](int requested, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
            return functions.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                handle, d.x, d.y, d.convolution, d.w, requested, count, results);
          },
          ranking);
  }
  return CUDNN_STATUS_BAD_PARAM;
}

}  // namespace ucudnn::cudnn
