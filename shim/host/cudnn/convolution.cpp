// The three convolution functions. They check all arguments before they return; the work is
// asynchronous.
#include "shim/host/cudnn/device_memory.h"
#include "shim/host/cudnn/entry_points.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/hostgpu.h"

using namespace hostgpu;

namespace {

cudnnStatus_t Convolve(cudnnHandle_t handle, const ConvolutionDescriptors& descriptors,
                       const void* alpha, const void* beta, int algorithm,
                       const DevicePointers& pointers) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(hostgpuFaultDue("convolution"), CUDNN_STATUS_EXECUTION_FAILED);
    HOSTGPU_REFUSE_IF(alpha == nullptr || beta == nullptr, CUDNN_STATUS_BAD_PARAM);
    Problem problem;
    if (auto status = descriptors.Describe(&problem)) return status;
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

#define HOSTGPU_CONVOLUTION(Name, Short, First, Second, Result)                                  \
  cudnnStatus_t cudnnConvolution##Name(                                                          \
      cudnnHandle_t handle, const void* alpha, const cudnn##First##Descriptor_t first_desc,      \
      const void* first, const cudnn##Second##Descriptor_t second_desc, const void* second,      \
      const cudnnConvolutionDescriptor_t convolution, cudnnConvolution##Short##Algo_t algorithm, \
      void* workspace, size_t workspace_bytes, const void* beta,                                 \
      const cudnn##Result##Descriptor_t result_desc, void* result) {                             \
    const ConvolutionDescriptors descriptors(first_desc, second_desc, convolution, result_desc); \
    return Convolve(handle, descriptors, alpha, beta, algorithm,                                 \
                    descriptors.Pointers(first, second, result, workspace, workspace_bytes));    \
  }
HOSTGPU_FOR_EACH_OPERATION(HOSTGPU_CONVOLUTION)
#undef HOSTGPU_CONVOLUTION

}  // extern "C"
