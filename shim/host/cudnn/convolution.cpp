// The three convolutions. Everything is checked before the call returns; the work is asynchronous.
#include "shim/host/cudnn/device_memory.h"
#include "shim/host/cudnn/execution.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/hostgpu.h"

using namespace hostgpu;

namespace {

cudnnStatus_t Convolve(cudnnHandle_t handle, Operation operation, const void* alpha,
                       cudnnTensorDescriptor_t xDesc, cudnnFilterDescriptor_t wDesc,
                       cudnnConvolutionDescriptor_t convDesc, cudnnTensorDescriptor_t yDesc,
                       int algorithm, const void* beta, const DevicePointers& pointers) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(hostgpuFaultDue("convolution"), CUDNN_STATUS_EXECUTION_FAILED);
    HOSTGPU_REFUSE_IF(alpha == nullptr || beta == nullptr, CUDNN_STATUS_BAD_PARAM);
    Problem problem;
    if (auto status = Describe(operation, xDesc, wDesc, convDesc, yDesc, &problem)) return status;
    Operands operands;
    if (auto status = Check(handle, problem, algorithm, pointers, &operands)) return status;
    const double scale = ReadScale(alpha, problem.shape.type);
    const double keep = ReadScale(beta, problem.shape.type);
    return Enqueue(handle, {pointers.x, pointers.w, pointers.y, pointers.UsedWorkspace(operands)},
                   [=] { Execute(problem, algorithm, scale, keep, operands); });
  });
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t xDesc, const void* x,
                                      const cudnnFilterDescriptor_t wDesc, const void* w,
                                      const cudnnConvolutionDescriptor_t convDesc,
                                      cudnnConvolutionFwdAlgo_t algo, void* workSpace,
                                      size_t workSpaceSizeInBytes, const void* beta,
                                      const cudnnTensorDescriptor_t yDesc, void* y) {
  return Convolve(handle, Operation::kForward, alpha, xDesc, wDesc, convDesc, yDesc, algo, beta,
                  {x, w, y, workSpace, workSpaceSizeInBytes});
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t wDesc, const void* w,
                                           const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                           const cudnnConvolutionDescriptor_t convDesc,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workSpace,
                                           size_t workSpaceSizeInBytes, const void* beta,
                                           const cudnnTensorDescriptor_t dxDesc, void* dx) {
  return Convolve(handle, Operation::kBackwardData, alpha, dxDesc, wDesc, convDesc, dyDesc, algo,
                  beta, {dx, w, dy, workSpace, workSpaceSizeInBytes});
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t xDesc, const void* x,
                                             const cudnnTensorDescriptor_t dyDesc, const void* dy,
                                             const cudnnConvolutionDescriptor_t convDesc,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workSpace,
                                             size_t workSpaceSizeInBytes, const void* beta,
                                             const cudnnFilterDescriptor_t dwDesc, void* dw) {
  return Convolve(handle, Operation::kBackwardFilter, alpha, xDesc, dwDesc, convDesc, dyDesc, algo,
                  beta, {x, dw, dy, workSpace, workSpaceSizeInBytes});
}

}  // extern "C"
