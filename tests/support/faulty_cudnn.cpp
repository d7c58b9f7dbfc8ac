#include "tests/support/faulty_cudnn.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include "shim/host/hostgpu.h"
#include "tests/support/stand_in.h"

namespace ucudnn::test {
namespace {

struct State {
  Fault fault;
  int calls = 0;
};

State& TheState() {
  static State state;
  return state;
}

cudnnStatus_t Faulty(cudnn::ConvolutionCall call) {
  const cudnn::Functions real = StandIn();
  State& state = TheState();
  const int index = state.calls++;
  const bool now = index == state.fault.at;
  if (index > state.fault.at && state.fault.later != nullptr) state.fault.later(call);
  if (now && state.fault.status != CUDNN_STATUS_SUCCESS) return state.fault.status;
  if (now && state.fault.before != nullptr) state.fault.before(call);
  const cudnnStatus_t status = cudnn::Convolve(real, call);
  if (status == CUDNN_STATUS_SUCCESS && now && state.fault.after != nullptr) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudnnGetStream(call.handle, &stream), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    state.fault.after(call);
  }
  return status;
}

cudnnStatus_t FaultyForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                            const void* x, cudnnFilterDescriptor_t w_desc, const void* w,
                            cudnnConvolutionDescriptor_t convolution,
                            cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes,
                            const void* beta, cudnnTensorDescriptor_t y_desc, void* y) {
  return Faulty({Operation::kForward,
                 handle,
                 {x_desc, w_desc, y_desc, convolution},
                 alpha,
                 beta,
                 const_cast<void*>(x),
                 const_cast<void*>(w),
                 y,
                 algorithm,
                 workspace,
                 bytes});
}

cudnnStatus_t FaultyBackwardData(cudnnHandle_t handle, const void* alpha,
                                 cudnnFilterDescriptor_t w_desc, const void* w,
                                 cudnnTensorDescriptor_t y_desc, const void* y,
                                 cudnnConvolutionDescriptor_t convolution,
                                 cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                 size_t bytes, const void* beta, cudnnTensorDescriptor_t x_desc,
                                 void* x) {
  return Faulty({Operation::kBackwardData,
                 handle,
                 {x_desc, w_desc, y_desc, convolution},
                 alpha,
                 beta,
                 x,
                 const_cast<void*>(w),
                 const_cast<void*>(y),
                 algorithm,
                 workspace,
                 bytes});
}

cudnnStatus_t FaultyBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                   cudnnTensorDescriptor_t x_desc, const void* x,
                                   cudnnTensorDescriptor_t y_desc, const void* y,
                                   cudnnConvolutionDescriptor_t convolution,
                                   cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                   size_t bytes, const void* beta, cudnnFilterDescriptor_t w_desc,
                                   void* w) {
  return Faulty({Operation::kBackwardFilter,
                 handle,
                 {x_desc, w_desc, y_desc, convolution},
                 alpha,
                 beta,
                 const_cast<void*>(x),
                 w,
                 const_cast<void*>(y),
                 algorithm,
                 workspace,
                 bytes});
}

}  // namespace

cudnn::Functions FaultyStandIn(const Fault& fault) {
  TheState() = {fault, 0};
  cudnn::Functions functions = StandIn();
  functions.cudnnConvolutionForward = FaultyForward;
  functions.cudnnConvolutionBackwardData = FaultyBackwardData;
  functions.cudnnConvolutionBackwardFilter = FaultyBackwardFilter;
  return functions;
}

void WriteByte(void* device_address) {
  auto* const byte = static_cast<unsigned char*>(hostgpuHostAlias(device_address));
  ASSERT_NE(byte, nullptr);
  *byte ^= 0x5a;
}

}  // namespace ucudnn::test
