// Implements cudnnGetConvolution*Algorithm of cuDNN 7, which old frameworks still call. They return
// an algorithm that fits in the caller's workspace limit.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "api/answers.h"
#include "api/process.h"
#include "api/refusal.h"
#include "base/byte_size.h"
#include "cudnn/convolution_call.h"
#include "ucudnn/ucudnn.h"

namespace ucudnn {
namespace {

using cudnn::AlgorithmPerformance;
using cudnn::Descriptors;

// The preference enumerations of all three operations have these values.
static_assert(int{CUDNN_CONVOLUTION_FWD_NO_WORKSPACE} == 0 &&
              int{CUDNN_CONVOLUTION_FWD_PREFER_FASTEST} == 1 &&
              int{CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT} == 2);

// Returns the first, and so the fastest, algorithm of `answer` with the math type `math` and at
// most `limit_bytes` of workspace. The caller cannot choose another math type, because the removed
// functions do not return one.
const AlgorithmPerformance* FirstWithin(const std::vector<AlgorithmPerformance>& answer,
                                        cudnnMathType_t math, std::optional<size_t> limit_bytes) {
  const auto found =
      std::find_if(answer.begin(), answer.end(), [&](const AlgorithmPerformance& performance) {
        return performance.status == CUDNN_STATUS_SUCCESS && performance.math == math &&
               (!limit_bytes || performance.workspace_bytes <= *limit_bytes);
      });
  return found != answer.end() ? &*found : nullptr;
}

// Returns ucudnn's planned algorithms within `limit_bytes`. Returns none if ucudnn does not plan
// this convolution; GetAlgorithm then ranks the library's algorithms.
std::optional<std::vector<AlgorithmPerformance>> Planned(Operation operation, cudnnHandle_t handle,
                                                         const Descriptors& descriptors,
                                                         std::optional<size_t> limit_bytes) {
  if (FixedOptions().mode == Mode::kOff) return std::nullopt;
  interposer::Interposer* const interposer = ProcessInterposer();
  if (interposer == nullptr) return std::nullopt;
  interposer->sessions().FollowStream(handle);
  return interposer->legacy().GetAlgorithms(operation, handle, descriptors, limit_bytes);
}

// Implements the removed function of one operation. `rank` calls cudnnGetConvolution*Algorithm_v7
// and `need` calls cudnnGetConvolution*WorkspaceSize with the caller's arguments; both reach
// ucudnn's hooks.
template <typename Performance, typename Algorithm, typename Rank, typename Need>
cudnnStatus_t GetAlgorithm(Operation operation, cudnnHandle_t handle,
                           const Descriptors& descriptors, int preference, size_t limit_bytes,
                           Algorithm* algorithm, Rank rank, Need need) {
  const std::string function = std::string(OperationName(operation)) + " algorithm: ";
  if (handle == nullptr || algorithm == nullptr || descriptors.x == nullptr ||
      descriptors.w == nullptr || descriptors.y == nullptr || descriptors.convolution == nullptr) {
    return Refuse(CUDNN_STATUS_BAD_PARAM, function + "a null pointer");
  }
  if (preference < CUDNN_CONVOLUTION_FWD_NO_WORKSPACE ||
      preference > CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT) {
    return Refuse(CUDNN_STATUS_BAD_PARAM,
                  function + "no preference has the number " + std::to_string(preference));
  }
  std::optional<size_t> limit;
  if (preference == CUDNN_CONVOLUTION_FWD_NO_WORKSPACE) limit = 0;
  if (preference == CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT) limit = limit_bytes;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  const cudnnStatus_t read =
      UCUDNN_ANSWER(cudnnGetConvolutionMathType)(descriptors.convolution, &math);
  if (read != CUDNN_STATUS_SUCCESS) return read;

  std::vector<AlgorithmPerformance> answer;
  if (auto planned = Planned(operation, handle, descriptors, limit)) answer = std::move(*planned);
  const AlgorithmPerformance* best = FirstWithin(answer, math, limit);
  if (best == nullptr) {
    Performance results[64];
    int returned = 0;
    const cudnnStatus_t status = rank(static_cast<int>(std::size(results)), &returned, results);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    answer.clear();
    for (int i = 0; i < returned; ++i) answer.push_back(cudnn::FromPerformance(results[i]));
    best = FirstWithin(answer, math, limit);
  }
  // An algorithm that `answer` lists only with other math types may still run with the descriptor's
  // math type and another workspace size, which `need` returns.
  for (size_t i = 0; best == nullptr && i < answer.size(); ++i) {
    size_t bytes = 0;
    if (answer[i].status == CUDNN_STATUS_SUCCESS &&
        need(static_cast<Algorithm>(answer[i].algorithm), &bytes) == CUDNN_STATUS_SUCCESS &&
        (!limit || bytes <= *limit)) {
      best = &answer[i];
    }
  }
  if (best == nullptr) {
    return Refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  function + "none fits in " + (limit ? FormatByteSize(*limit) : "any workspace"));
  }
  *algorithm = static_cast<Algorithm>(best->algorithm);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace ucudnn

extern "C" {

cudnnStatus_t ucudnnGetConvolutionForwardAlgorithm(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                   cudnnFilterDescriptor_t w,
                                                   cudnnConvolutionDescriptor_t convolution,
                                                   cudnnTensorDescriptor_t y,
                                                   cudnnConvolutionFwdPreference_t preference,
                                                   size_t limit_bytes,
                                                   cudnnConvolutionFwdAlgo_t* algorithm) {
  return ucudnn::WithoutExceptions([&] {
    return ucudnn::GetAlgorithm<cudnnConvolutionFwdAlgoPerf_t>(
        ucudnn::Operation::kForward, handle, {x, w, y, convolution}, preference, limit_bytes,
        algorithm,
        [&](int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
          return ucudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, requested,
                                                         returned, results);
        },
        [&](cudnnConvolutionFwdAlgo_t chosen, size_t* bytes) {
          return ucudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, y, chosen,
                                                          bytes);
        });
  });
}

cudnnStatus_t ucudnnGetConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataPreference_t preference, size_t limit_bytes,
    cudnnConvolutionBwdDataAlgo_t* algorithm) {
  return ucudnn::WithoutExceptions([&] {
    return ucudnn::GetAlgorithm<cudnnConvolutionBwdDataAlgoPerf_t>(
        ucudnn::Operation::kBackwardData, handle, {dx, w, dy, convolution}, preference, limit_bytes,
        algorithm,
        [&](int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
          return ucudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, dy, convolution, dx,
                                                              requested, returned, results);
        },
        [&](cudnnConvolutionBwdDataAlgo_t chosen, size_t* bytes) {
          return ucudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, dy, convolution, dx,
                                                               chosen, bytes);
        });
  });
}

cudnnStatus_t ucudnnGetConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterPreference_t preference, size_t limit_bytes,
    cudnnConvolutionBwdFilterAlgo_t* algorithm) {
  return ucudnn::WithoutExceptions([&] {
    return ucudnn::GetAlgorithm<cudnnConvolutionBwdFilterAlgoPerf_t>(
        ucudnn::Operation::kBackwardFilter, handle, {x, dw, dy, convolution}, preference,
        limit_bytes, algorithm,
        [&](int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
          return ucudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, dy, convolution, dw,
                                                                requested, returned, results);
        },
        [&](cudnnConvolutionBwdFilterAlgo_t chosen, size_t* bytes) {
          return ucudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, dy, convolution, dw,
                                                                 chosen, bytes);
        });
  });
}

}  // extern "C"
