// Defines UcudnnHandle_t, which replaces cudnnHandle_t. If a program changes the type of its
// handles, includes this file and links with -lucudnn, ucudnn plans the program's convolutions; the
// program's calls of cuDNN stay the same. For both types of handle this file also defines the
// cudnnGetConvolution*Algorithm functions that cuDNN 8 removed.
//
//     UcudnnHandle_t handle;                     // was cudnnHandle_t
//     cudnnCreate(&handle);                      // ucudnn's function
//     cudnnConvolutionForward(handle, ...);      // ucudnn's function: in micro-batches if planned
//     cudnnPoolingForward(handle, ...);          // cuDNN's own function: the handle converts
//
// The compiler chooses overloads by the handle's type. Code that has a cudnnHandle_t calls cuDNN
// itself, and must not use a workspace or an algorithm that ucudnn's functions reported (see
// ucudnn.h). Convolutions of the graph API have no handle while they are planned, so this file does
// not affect them; only the preloaded drop-in divides them. Header only, C++11. The functions for
// UcudnnHandle_t behave as the functions of ucudnn.h with the same names.
#ifndef UCUDNN_HANDLE_H_
#define UCUDNN_HANDLE_H_

#include <ucudnn/ucudnn.h>

// A value as large as the pointer that it holds. Copies refer to the same handle; only cudnnDestroy
// destroys that handle.
class UcudnnHandle_t {
 public:
  UcudnnHandle_t() : handle_(nullptr) {}
  UcudnnHandle_t(cudnnHandle_t handle) : handle_(handle) {}  // NOLINT: implicit by design
  operator cudnnHandle_t() const { return handle_; }         // NOLINT: implicit by design

 private:
  cudnnHandle_t handle_;
};
static_assert(sizeof(UcudnnHandle_t) == sizeof(cudnnHandle_t), "handles are kept in arrays");

inline cudnnStatus_t cudnnCreate(UcudnnHandle_t* handle) {
  cudnnHandle_t created = nullptr;
  const cudnnStatus_t status = ucudnnCreate(handle != nullptr ? &created : nullptr);
  if (handle != nullptr && status == CUDNN_STATUS_SUCCESS) *handle = created;
  return status;
}
inline cudnnStatus_t cudnnDestroy(UcudnnHandle_t handle) { return ucudnnDestroy(handle); }
inline cudnnStatus_t cudnnSetStream(UcudnnHandle_t handle, cudaStream_t stream) {
  return ucudnnSetStream(handle, stream);
}

// --- Convolutions -------------------------------------------------------------------------------

inline cudnnStatus_t cudnnConvolutionForward(UcudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_desc, const void* x,
                                             const cudnnFilterDescriptor_t w_desc, const void* w,
                                             const cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                             size_t workspace_bytes, const void* beta,
                                             const cudnnTensorDescriptor_t y_desc, void* y) {
  return ucudnnConvolutionForward(handle, alpha, x_desc, x, w_desc, w, convolution, algorithm,
                                  workspace, workspace_bytes, beta, y_desc, y);
}
inline cudnnStatus_t cudnnConvolutionBiasActivationForward(
    UcudnnHandle_t handle, const void* alpha1, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnFilterDescriptor_t w_desc, const void* w,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
    void* workspace, size_t workspace_bytes, const void* alpha2,
    const cudnnTensorDescriptor_t z_desc, const void* z, const cudnnTensorDescriptor_t bias_desc,
    const void* bias, const cudnnActivationDescriptor_t activation,
    const cudnnTensorDescriptor_t y_desc, void* y) {
  return ucudnnConvolutionBiasActivationForward(handle, alpha1, x_desc, x, w_desc, w, convolution,
                                                algorithm, workspace, workspace_bytes, alpha2,
                                                z_desc, z, bias_desc, bias, activation, y_desc, y);
}
inline cudnnStatus_t cudnnConvolutionBackwardData(
    UcudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t w_desc, const void* w,
    const cudnnTensorDescriptor_t dy_desc, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdDataAlgo_t algorithm,
    void* workspace, size_t workspace_bytes, const void* beta,
    const cudnnTensorDescriptor_t dx_desc, void* dx) {
  return ucudnnConvolutionBackwardData(handle, alpha, w_desc, w, dy_desc, dy, convolution,
                                       algorithm, workspace, workspace_bytes, beta, dx_desc, dx);
}
inline cudnnStatus_t cudnnConvolutionBackwardFilter(
    UcudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t dy_desc, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdFilterAlgo_t algorithm,
    void* workspace, size_t workspace_bytes, const void* beta,
    const cudnnFilterDescriptor_t dw_desc, void* dw) {
  return ucudnnConvolutionBackwardFilter(handle, alpha, x_desc, x, dy_desc, dy, convolution,
                                         algorithm, workspace, workspace_bytes, beta, dw_desc, dw);
}

// --- Workspaces ---------------------------------------------------------------------------------

inline cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return ucudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, y, algorithm, bytes);
}
inline cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    UcudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  return ucudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, dy, convolution, dx, algorithm,
                                                       bytes);
}
inline cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  return ucudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, dy, convolution, dw, algorithm,
                                                         bytes);
}

// --- Algorithms ---------------------------------------------------------------------------------

inline cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
  return ucudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, requested, returned,
                                                 results);
}
inline cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    UcudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return ucudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, dy, convolution, dx, requested,
                                                      returned, results);
}
inline cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return ucudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, dy, convolution, dw, requested,
                                                        returned, results);
}

inline cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
  return ucudnnFindConvolutionForwardAlgorithm(handle, x, w, convolution, y, requested, returned,
                                               results);
}
inline cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    UcudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return ucudnnFindConvolutionBackwardDataAlgorithm(handle, w, dy, convolution, dx, requested,
                                                    returned, results);
}
inline cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return ucudnnFindConvolutionBackwardFilterAlgorithm(handle, x, dy, convolution, dw, requested,
                                                      returned, results);
}

inline cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnFilterDescriptor_t w_desc, const void* w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y_desc, void* y,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results, void* workspace,
    size_t workspace_bytes) {
  return ucudnnFindConvolutionForwardAlgorithmEx(handle, x_desc, x, w_desc, w, convolution, y_desc,
                                                 y, requested, returned, results, workspace,
                                                 workspace_bytes);
}
inline cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    UcudnnHandle_t handle, const cudnnFilterDescriptor_t w_desc, const void* w,
    const cudnnTensorDescriptor_t dy_desc, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx_desc, void* dx,
    const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results, void* workspace,
    size_t workspace_bytes) {
  return ucudnnFindConvolutionBackwardDataAlgorithmEx(handle, w_desc, w, dy_desc, dy, convolution,
                                                      dx_desc, dx, requested, returned, results,
                                                      workspace, workspace_bytes);
}
inline cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t dy_desc, const void* dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw_desc, void* dw,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results,
    void* workspace, size_t workspace_bytes) {
  return ucudnnFindConvolutionBackwardFilterAlgorithmEx(handle, x_desc, x, dy_desc, dy, convolution,
                                                        dw_desc, dw, requested, returned, results,
                                                        workspace, workspace_bytes);
}

// --- What cuDNN 8 removed -----------------------------------------------------------------------

inline cudnnStatus_t cudnnGetConvolutionForwardAlgorithm(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdPreference_t preference, size_t limit_bytes,
    cudnnConvolutionFwdAlgo_t* algorithm) {
  return ucudnnGetConvolutionForwardAlgorithm(handle, x, w, convolution, y, preference, limit_bytes,
                                              algorithm);
}
inline cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm(
    UcudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataPreference_t preference, size_t limit_bytes,
    cudnnConvolutionBwdDataAlgo_t* algorithm) {
  return ucudnnGetConvolutionBackwardDataAlgorithm(handle, w, dy, convolution, dx, preference,
                                                   limit_bytes, algorithm);
}
inline cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm(
    UcudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterPreference_t preference, size_t limit_bytes,
    cudnnConvolutionBwdFilterAlgo_t* algorithm) {
  return ucudnnGetConvolutionBackwardFilterAlgorithm(handle, x, dy, convolution, dw, preference,
                                                     limit_bytes, algorithm);
}

// cudnnGetConvolution*Algorithm for cuDNN's own handles. Returns the first algorithm of the ranking
// (the real library's or the preloaded drop-in's) that fits the limit with the convolution
// descriptor's math type. Does not need -lucudnn.
namespace ucudnn {
namespace removed {

// Sets *algorithm to the first algorithm that `preference` and `limit_bytes` allow. rank(requested,
// &returned, results) calls cudnnGetConvolution*Algorithm_v7; need(algorithm, &bytes) calls
// cudnnGetConvolution*WorkspaceSize. `preference` is a value of any of the three preference
// enumerations, whose numbers are equal.
template <typename Performance, typename Algorithm, typename Rank, typename Need>
cudnnStatus_t FirstWithin(cudnnConvolutionDescriptor_t convolution, int preference,
                          size_t limit_bytes, Algorithm* algorithm, Rank rank, Need need) {
  if (algorithm == nullptr || preference < CUDNN_CONVOLUTION_FWD_NO_WORKSPACE ||
      preference > CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (preference == CUDNN_CONVOLUTION_FWD_NO_WORKSPACE) limit_bytes = 0;
  if (preference == CUDNN_CONVOLUTION_FWD_PREFER_FASTEST) limit_bytes = static_cast<size_t>(-1);
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  cudnnStatus_t status = cudnnGetConvolutionMathType(convolution, &math);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Performance results[64];
  int returned = 0;
  status = rank(64, &returned, results);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  for (int i = 0; i < returned; ++i) {
    if (results[i].status != CUDNN_STATUS_SUCCESS || results[i].mathType != math) continue;
    if (results[i].memory > limit_bytes) continue;
    *algorithm = results[i].algo;
    return CUDNN_STATUS_SUCCESS;
  }
  // An algorithm that the ranking lists only with other math types may still run with the
  // descriptor's own math type and another workspace, whose size `need` returns.
  for (int i = 0; i < returned; ++i) {
    size_t bytes = 0;
    if (results[i].status != CUDNN_STATUS_SUCCESS) continue;
    if (need(results[i].algo, &bytes) != CUDNN_STATUS_SUCCESS || bytes > limit_bytes) continue;
    *algorithm = results[i].algo;
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace removed
}  // namespace ucudnn

inline cudnnStatus_t cudnnGetConvolutionForwardAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdPreference_t preference, size_t limit_bytes,
    cudnnConvolutionFwdAlgo_t* algorithm) {
  typedef cudnnConvolutionFwdAlgoPerf_t Performance;
  return ucudnn::removed::FirstWithin<Performance>(
      convolution, preference, limit_bytes, algorithm,
      [=](int requested, int* returned, Performance* results) {
        return cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, requested,
                                                      returned, results);
      },
      [=](cudnnConvolutionFwdAlgo_t chosen, size_t* bytes) {
        return cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, y, chosen, bytes);
      });
}
inline cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataPreference_t preference, size_t limit_bytes,
    cudnnConvolutionBwdDataAlgo_t* algorithm) {
  typedef cudnnConvolutionBwdDataAlgoPerf_t Performance;
  return ucudnn::removed::FirstWithin<Performance>(
      convolution, preference, limit_bytes, algorithm,
      [=](int requested, int* returned, Performance* results) {
        return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, dy, convolution, dx,
                                                           requested, returned, results);
      },
      [=](cudnnConvolutionBwdDataAlgo_t chosen, size_t* bytes) {
        return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, dy, convolution, dx, chosen,
                                                            bytes);
      });
}
inline cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterPreference_t preference, size_t limit_bytes,
    cudnnConvolutionBwdFilterAlgo_t* algorithm) {
  typedef cudnnConvolutionBwdFilterAlgoPerf_t Performance;
  return ucudnn::removed::FirstWithin<Performance>(
      convolution, preference, limit_bytes, algorithm,
      [=](int requested, int* returned, Performance* results) {
        return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, dy, convolution, dw,
                                                             requested, returned, results);
      },
      [=](cudnnConvolutionBwdFilterAlgo_t chosen, size_t* bytes) {
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, dy, convolution, dw,
                                                              chosen, bytes);
      });
}

#endif  // UCUDNN_HANDLE_H_
