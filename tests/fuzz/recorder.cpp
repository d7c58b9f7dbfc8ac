#include "recorder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cudnn/convolution_call.h"

namespace ucudnn::fuzz {
namespace {

using test::Undivided;

std::vector<RealCall> recorded;

cudnnStatus_t Record(Operation operation, cudnnHandle_t handle, const cudnn::Descriptors& d,
                     int algorithm, const void* x, const void* y, cudnnStatus_t status) {
  RealCall call;
  call.handle = handle;
  call.algorithm = algorithm;
  call.x = x;
  call.y = y;
  call.status = status;
  cudnnDataType_t type;
  int rank = 0;
  std::array<int, 5> extents = {}, strides = {};
  Undivided().cudnnGetTensorNdDescriptor(d.x, 5, &type, &rank, extents.data(), strides.data());
  call.images = extents[0];
  Undivided().cudnnGetConvolutionMathType(d.convolution, &call.math);
  if (cudnn::WorkspaceBytes(Undivided(), operation, handle, d, algorithm, &call.need) !=
      CUDNN_STATUS_SUCCESS) {
    call.need = 0;
  }
  recorded.push_back(call);
  return status;
}

cudnnStatus_t Forward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                      const void* x, cudnnFilterDescriptor_t w_desc, const void* w,
                      cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                      void* workspace, size_t bytes, const void* beta,
                      cudnnTensorDescriptor_t y_desc, void* y) {
  return Record(
      Operation::kForward, handle, {x_desc, w_desc, y_desc, convolution}, algorithm, x, y,
      Undivided().cudnnConvolutionForward(handle, alpha, x_desc, x, w_desc, w, convolution,
                                          algorithm, workspace, bytes, beta, y_desc, y));
}

cudnnStatus_t BiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, cudnnTensorDescriptor_t x_desc, const void* x,
    cudnnFilterDescriptor_t w_desc, const void* w, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes, const void* alpha2,
    cudnnTensorDescriptor_t z_desc, const void* z, cudnnTensorDescriptor_t bias_desc,
    const void* bias, cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y_desc,
    void* y) {
  return Record(Operation::kForward, handle, {x_desc, w_desc, y_desc, convolution}, algorithm, x, y,
                Undivided().cudnnConvolutionBiasActivationForward(
                    handle, alpha1, x_desc, x, w_desc, w, convolution, algorithm, workspace, bytes,
                    alpha2, z_desc, z, bias_desc, bias, activation, y_desc, y));
}

cudnnStatus_t BackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_desc,
                           const void* w, cudnnTensorDescriptor_t y_desc, const void* y,
                           cudnnConvolutionDescriptor_t convolution,
                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, size_t bytes,
                           const void* beta, cudnnTensorDescriptor_t x_desc, void* x) {
  return Record(
      Operation::kBackwardData, handle, {x_desc, w_desc, y_desc, convolution}, algorithm, x, y,
      Undivided().cudnnConvolutionBackwardData(handle, alpha, w_desc, w, y_desc, y, convolution,
                                               algorithm, workspace, bytes, beta, x_desc, x));
}

cudnnStatus_t BackwardFilter(cudnnHandle_t handle, const void* alpha,
                             cudnnTensorDescriptor_t x_desc, const void* x,
                             cudnnTensorDescriptor_t y_desc, const void* y,
                             cudnnConvolutionDescriptor_t convolution,
                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                             size_t bytes, const void* beta, cudnnFilterDescriptor_t w_desc,
                             void* w) {
  return Record(
      Operation::kBackwardFilter, handle, {x_desc, w_desc, y_desc, convolution}, algorithm, x, y,
      Undivided().cudnnConvolutionBackwardFilter(handle, alpha, x_desc, x, y_desc, y, convolution,
                                                 algorithm, workspace, bytes, beta, w_desc, w));
}

}  // namespace

const cudnn::Functions& Recording() {
  static const cudnn::Functions functions = [] {
    cudnn::Functions with = Undivided();
    with.cudnnConvolutionForward = &Forward;
    with.cudnnConvolutionBiasActivationForward = &BiasActivationForward;
    with.cudnnConvolutionBackwardData = &BackwardData;
    with.cudnnConvolutionBackwardFilter = &BackwardFilter;
    return with;
  }();
  return functions;
}

std::vector<RealCall> TakeRecorded(cudnnHandle_t handle) {
  std::vector<RealCall> taken = std::exchange(recorded, {});
  std::erase_if(taken, [&](const RealCall& call) { return call.handle != handle; });
  return taken;
}

}  // namespace ucudnn::fuzz
