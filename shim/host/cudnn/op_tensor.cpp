// cudnnOpTensor: C = op(alpha1 * A, alpha2 * B) + beta * C, where B is repeated along its axes of
// extent 1. The work is asynchronous. Tensors have any strides that are not negative. A and B have
// the same type; C may have another type of the same precision class (fp32, fp16 and bf16 are
// computed in fp32, fp64 in fp64).
#include <cmath>
#include "shim/host/cudnn/blend.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/operand.h"
#include "shim/host/cudnn/strided.h"
#include "shim/host/hostgpu.h"

namespace hostgpu {
namespace {

struct OpTensor {
  cudnnOpTensorStruct op;
  cudnnTensorStruct a, b, c;
  const void* a_data;
  const void* b_data;
  void* c_data;
  double alpha1, alpha2, beta;
};

template <class A>
A Combine(const cudnnOpTensorStruct& op, A a, A b) {
  const bool nan = op.nan_propagation == CUDNN_PROPAGATE_NAN && (a != a || b != b);
  switch (op.operation) {
    case CUDNN_OP_TENSOR_ADD:
      return a + b;
    case CUDNN_OP_TENSOR_MUL:
      return a * b;
    case CUDNN_OP_TENSOR_MIN:
      return nan ? a + b : std::fmin(a, b);
    case CUDNN_OP_TENSOR_MAX:
      return nan ? a + b : std::fmax(a, b);
    case CUDNN_OP_TENSOR_SQRT:
      return std::sqrt(a);
    case CUDNN_OP_TENSOR_NOT:
      return 1 - a;
  }
  return a;
}

template <class From, class To>
void Run(const OpTensor& call) {
  using A = Accumulator<To>;
  const A alpha1 = static_cast<A>(call.alpha1), alpha2 = static_cast<A>(call.alpha2);
  const std::array<Extents, 3> strides = {call.c.strides, call.a.strides, BroadcastStrides(call.b)};
  ForEachElement(call.c.dim_count, call.c.dims, strides, [&](const auto& at) {
    const A a = Load(static_cast<const From*>(call.a_data)[at[1]]);
    const A b = Load(static_cast<const From*>(call.b_data)[at[2]]);
    Blend(static_cast<To*>(call.c_data)[at[0]], {1, call.beta},
          Combine<A>(call.op, alpha1 * a, alpha2 * b));
  });
}

cudnnStatus_t CheckShapes(const cudnnTensorStruct& a, const cudnnTensorStruct& b,
                          const cudnnTensorStruct& c) {
  HOSTGPU_REFUSE_IF(c.dim_count <= 3, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!SameShape(a, c), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(!Broadcasts(b, c), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(a.type != b.type, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(c.dim_count > 5, CUDNN_STATUS_NOT_SUPPORTED);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

HOSTGPU_CREATE_AND_DESTROY(OpTensor)

cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t opTensorDesc,
                                         cudnnOpTensorOp_t opTensorOp,
                                         cudnnDataType_t opTensorCompType,
                                         cudnnNanPropagation_t opTensorNanOpt) {
  HOSTGPU_REFUSE_IF(opTensorDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(opTensorOp < CUDNN_OP_TENSOR_ADD || opTensorOp > CUDNN_OP_TENSOR_NOT,
                    CUDNN_STATUS_BAD_PARAM);
  DataType type{};
  HOSTGPU_REFUSE_IF(!EngineType(opTensorCompType, &type), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(
      opTensorNanOpt != CUDNN_NOT_PROPAGATE_NAN && opTensorNanOpt != CUDNN_PROPAGATE_NAN,
      CUDNN_STATUS_BAD_PARAM);
  *opTensorDesc = {opTensorOp, opTensorCompType, opTensorNanOpt};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle, const cudnnOpTensorDescriptor_t opTensorDesc,
                            const void* alpha1, const cudnnTensorDescriptor_t aDesc, const void* A,
                            const void* alpha2, const cudnnTensorDescriptor_t bDesc, const void* B,
                            const void* beta, const cudnnTensorDescriptor_t cDesc, void* C) {
  return Protect([&] {
    // B must not be null even for operations that ignore B, as in the real library.
    HOSTGPU_REFUSE_IF(
        AnyNull(handle, opTensorDesc, aDesc, bDesc, cDesc, A, B, C, alpha1, alpha2, beta),
        CUDNN_STATUS_BAD_PARAM);
    if (auto status = CheckShapes(*aDesc, *bDesc, *cDesc)) return status;
    // B and C may be the same memory only if A is the same tensor as C, too.
    HOSTGPU_REFUSE_IF(B == C && !(A == C && SameTensor(*aDesc, *cDesc)), CUDNN_STATUS_BAD_PARAM);
    DataType from{}, to{};
    HOSTGPU_REFUSE_IF(!EngineType(aDesc->type, &from) || !EngineType(cDesc->type, &to),
                      CUDNN_STATUS_NOT_SUPPORTED);
    const bool wide = opTensorDesc->compute_type == CUDNN_DATA_DOUBLE;
    HOSTGPU_REFUSE_IF(!wide && opTensorDesc->compute_type != CUDNN_DATA_FLOAT,
                      CUDNN_STATUS_NOT_SUPPORTED);
    HOSTGPU_REFUSE_IF((from == DataType::kDouble) != wide || (to == DataType::kDouble) != wide,
                      CUDNN_STATUS_NOT_SUPPORTED);
    HOSTGPU_REFUSE_IF(hostgpuFaultDue("sum"), CUDNN_STATUS_EXECUTION_FAILED);
    void* a = nullptr;
    void* b = nullptr;
    void* c = nullptr;
    if (auto status = ResolveTensor(handle, "A", aDesc, A, &from, &a)) return status;
    if (auto status = ResolveTensor(handle, "B", bDesc, B, &from, &b)) return status;
    if (auto status = ResolveTensor(handle, "C", cDesc, C, &to, &c)) return status;
    const OpTensor call{*opTensorDesc,
                        *aDesc,
                        *bDesc,
                        *cDesc,
                        a,
                        b,
                        c,
                        ReadScale(alpha1, to),
                        ReadScale(alpha2, to),
                        ReadScale(beta, to)};
    return Enqueue(handle, {A, B, C}, [=] {
      WithElement(from, [&](auto from_element) {
        WithElement(to, [&](auto to_element) {
          using From = decltype(from_element);
          using To = decltype(to_element);
          if constexpr (std::is_same_v<Accumulator<From>, Accumulator<To>>) Run<From, To>(call);
        });
      });
    });
  });
}

}  // extern "C"
