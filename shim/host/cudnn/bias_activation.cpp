// cudnnConvolutionBiasActivationForward: y = activation(alpha1 * conv(x, w) + alpha2 * z + bias).
// The convolution writes y in y's type; a second pass adds alpha2 * z and the bias, and applies the
// activation. So 16-bit results are rounded twice, whereas a fused kernel would round once.
#include "shim/host/cudnn/execution.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/operand.h"
#include "shim/host/cudnn/strided.h"
#include "shim/host/engines/element.h"
#include "shim/host/hostgpu.h"

namespace hostgpu {
namespace {

struct Epilogue {
  cudnnTensorStruct y, z, bias;
  const void* z_data;  // null: no z is added
  const void* bias_data;
  double alpha2;
  bool relu;
  bool propagate_nan;
};

template <class T>
void AddBiasAndActivate(const Epilogue& epilogue, T* y) {
  using A = Accumulator<T>;
  const T* z = static_cast<const T*>(epilogue.z_data);
  const T* bias = static_cast<const T*>(epilogue.bias_data);
  const A alpha2 = static_cast<A>(epilogue.alpha2);
  const std::array<Extents, 3> strides = {epilogue.y.strides, epilogue.z.strides,
                                          BroadcastStrides(epilogue.bias)};
  ForEachElement(epilogue.y.dim_count, epilogue.y.dims, strides, [&](const auto& at) {
    A value = Load(y[at[0]]);
    if (z != nullptr) value += alpha2 * Load(z[at[1]]);
    value += Load(bias[at[2]]);
    if (epilogue.relu && !(value > 0) && !(value != value && epilogue.propagate_nan)) value = 0;
    Store(y[at[0]], value);
  });
}

bool SameLayout(const cudnnTensorStruct& a, const cudnnTensorStruct& b) {
  for (int i = 0; i < a.dim_count; ++i) {
    if (a.dims[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

struct FusedCall {
  const void* alpha1;
  cudnnTensorDescriptor_t x;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t convolution;
  int algorithm;
  const void* alpha2;
  cudnnTensorDescriptor_t z;
  const void* z_data;
  cudnnTensorDescriptor_t bias;
  const void* bias_data;
  cudnnActivationDescriptor_t activation;
  cudnnTensorDescriptor_t y;
};

cudnnStatus_t Fused(cudnnHandle_t handle, const FusedCall& call, const DevicePointers& pointers) {
  HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(hostgpuFaultDue("convolution"), CUDNN_STATUS_EXECUTION_FAILED);
  HOSTGPU_REFUSE_IF(AnyNull(call.alpha1, call.alpha2, call.z, call.bias, call.activation),
                    CUDNN_STATUS_BAD_PARAM);
  Problem problem;
  if (auto status =
          Describe(Operation::kForward, call.x, call.w, call.convolution, call.y, &problem)) {
    return status;
  }
  HOSTGPU_REFUSE_IF(problem.shape.type == DataType::kInt8, CUDNN_STATUS_NOT_SUPPORTED);
  const cudnnActivationMode_t mode = call.activation->mode;
  HOSTGPU_REFUSE_IF(mode != CUDNN_ACTIVATION_RELU && mode != CUDNN_ACTIVATION_IDENTITY,
                    CUDNN_STATUS_NOT_SUPPORTED);
  // cuDNN's documentation allows identity only with IMPLICIT_PRECOMP_GEMM.
  HOSTGPU_REFUSE_IF(mode == CUDNN_ACTIVATION_IDENTITY &&
                        call.algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                    CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(call.bias->type != call.y->type || call.z->type != call.y->type,
                    CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(!IsPerChannel(*call.bias, *call.y), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!SameShape(*call.z, *call.y), CUDNN_STATUS_BAD_PARAM);
  const double alpha1 = ReadScale(call.alpha1, problem.shape.type);
  const double alpha2 = ReadScale(call.alpha2, problem.shape.type);
  const bool adds_z = alpha2 != 0;
  // If z is y, the convolution's beta adds z. If z overlaps y in another way, the convolution would
  // overwrite z before z is read.
  const bool in_place = adds_z && call.z_data == pointers.y;
  HOSTGPU_REFUSE_IF(in_place && !SameLayout(*call.z, *call.y), CUDNN_STATUS_BAD_PARAM);

  Operands operands;
  if (auto status = Check(handle, problem, call.algorithm, pointers, &operands)) return status;
  DataType type{};
  void* z = nullptr;
  void* bias = nullptr;
  if (auto status = ResolveTensor(handle, "the bias", call.bias, call.bias_data, &type, &bias))
    return status;
  if (adds_z && !in_place) {
    if (auto status = ResolveTensor(handle, "z", call.z, call.z_data, &type, &z)) return status;
  }
  const Epilogue epilogue{*call.y,
                          *call.z,
                          *call.bias,
                          z,
                          bias,
                          alpha2,
                          mode == CUDNN_ACTIVATION_RELU,
                          call.activation->nan_propagation == CUDNN_PROPAGATE_NAN};
  const int algorithm = call.algorithm;
  return Enqueue(handle,
                 {pointers.x, pointers.w, pointers.y, pointers.UsedWorkspace(operands),
                  adds_z ? call.z_data : nullptr, call.bias_data},
                 [=] {
                   Execute(problem, algorithm, alpha1, in_place ? alpha2 : 0, operands);
                   WithElement(problem.shape.type, [&](auto element) {
                     AddBiasAndActivate(epilogue, static_cast<decltype(element)*>(operands.y));
                   });
                 });
}

}  // namespace
}  // namespace hostgpu

extern "C" cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, const cudnnTensorDescriptor_t xDesc, const void* x,
    const cudnnFilterDescriptor_t wDesc, const void* w, const cudnnConvolutionDescriptor_t convDesc,
    cudnnConvolutionFwdAlgo_t algo, void* workSpace, size_t workSpaceSizeInBytes,
    const void* alpha2, const cudnnTensorDescriptor_t zDesc, const void* z,
    const cudnnTensorDescriptor_t biasDesc, const void* bias,
    const cudnnActivationDescriptor_t activationDesc, const cudnnTensorDescriptor_t yDesc,
    void* y) {
  return hostgpu::Protect([&] {
    return hostgpu::Fused(handle,
                          {alpha1, xDesc, wDesc, convDesc, algo, alpha2, zDesc, z, biasDesc, bias,
                           activationDesc, yDesc},
                          {x, w, y, workSpace, workSpaceSizeInBytes});
  });
}
