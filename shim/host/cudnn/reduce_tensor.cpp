// cudnnReduceTensor: C = alpha * reduce(A) + beta * C over the axes on which C has extent 1. Only
// sums are supported. They add A's elements in the order of their indices, in fp64 for fp64 tensors
// and otherwise in fp32. The work is asynchronous. Tensors have any strides that are not negative.
#include <vector>

#include "shim/host/cudnn/blend.h"
#include "shim/host/cudnn/handle.h"
#include "shim/host/cudnn/operand.h"
#include "shim/host/cudnn/strided.h"

namespace hostgpu {
namespace {

struct Reduction {
  cudnnTensorStruct a, c;
  const void* from = nullptr;
  void* to = nullptr;
  Scales scales;
};

template <class T>
void Reduce(const Reduction& reduction) {
  // `kept` has the extents of A on the axes of the result, and 1 on the summed axes; `summed` has
  // A's extents on the summed axes, and 1 elsewhere.
  Extents kept = reduction.a.dims, summed = reduction.a.dims;
  for (int i = 0; i < reduction.a.dim_count; ++i) {
    (reduction.c.dims[i] == 1 ? kept : summed)[i] = 1;
  }
  const auto* const from = static_cast<const T*>(reduction.from);
  auto* const to = static_cast<T*>(reduction.to);
  ForEachElement<2>(
      reduction.a.dim_count, kept, {reduction.c.strides, reduction.a.strides}, [&](const auto& at) {
        Accumulator<T> sum = 0;
        ForEachElement<1>(reduction.a.dim_count, summed, {reduction.a.strides},
                          [&](const auto& inner) { sum += Load(from[at[1] + inner[0]]); });
        Blend(to[at[0]], reduction.scales, sum);
      });
}

cudnnStatus_t CheckReduction(const cudnnReduceTensorStruct* reduction, const cudnnTensorStruct* a,
                             const cudnnTensorStruct* c) {
  HOSTGPU_REFUSE_IF(reduction == nullptr || a == nullptr || c == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(a->dim_count == 0 || !Broadcasts(*c, *a), CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(a->type != c->type, CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(reduction->operation != CUDNN_REDUCE_TENSOR_ADD, CUDNN_STATUS_NOT_SUPPORTED);
  HOSTGPU_REFUSE_IF(
      (reduction->compute_type == CUDNN_DATA_DOUBLE) != (a->type == CUDNN_DATA_DOUBLE),
      CUDNN_STATUS_NOT_SUPPORTED);
  return CUDNN_STATUS_SUCCESS;
}

// The stand-in needs no workspace, but like the real library it demands workspace for partial sums.
size_t WorkspaceOf(const cudnnTensorStruct& c) {
  size_t results = 1;
  for (int i = 0; i < c.dim_count; ++i) results *= static_cast<size_t>(c.dims[i]);
  return results * sizeof(double);
}

}  // namespace
}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

HOSTGPU_CREATE_AND_DESTROY(ReduceTensor)

cudnnStatus_t cudnnSetReduceTensorDescriptor(cudnnReduceTensorDescriptor_t reduceTensorDesc,
                                             cudnnReduceTensorOp_t reduceTensorOp,
                                             cudnnDataType_t reduceTensorCompType,
                                             cudnnNanPropagation_t /*reduceTensorNanOpt*/,
                                             cudnnReduceTensorIndices_t /*reduceTensorIndices*/,
                                             cudnnIndicesType_t /*reduceTensorIndicesType*/) {
  HOSTGPU_REFUSE_IF(reduceTensorDesc == nullptr, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(
      reduceTensorOp < CUDNN_REDUCE_TENSOR_ADD || reduceTensorOp > CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS,
      CUDNN_STATUS_BAD_PARAM);
  DataType type{};
  HOSTGPU_REFUSE_IF(!EngineType(reduceTensorCompType, &type), CUDNN_STATUS_BAD_PARAM);
  *reduceTensorDesc = {reduceTensorOp, reduceTensorCompType};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetReductionWorkspaceSize(cudnnHandle_t handle,
                                             const cudnnReduceTensorDescriptor_t reduceTensorDesc,
                                             const cudnnTensorDescriptor_t aDesc,
                                             const cudnnTensorDescriptor_t cDesc,
                                             size_t* sizeInBytes) {
  HOSTGPU_REFUSE_IF(handle == nullptr || sizeInBytes == nullptr, CUDNN_STATUS_BAD_PARAM);
  if (auto status = CheckReduction(reduceTensorDesc, aDesc, cDesc)) return status;
  *sizeInBytes = WorkspaceOf(*cDesc);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnReduceTensor(cudnnHandle_t handle,
                                const cudnnReduceTensorDescriptor_t reduceTensorDesc,
                                void* /*indices*/, size_t /*indicesSizeInBytes*/, void* workspace,
                                size_t workspaceSizeInBytes, const void* alpha,
                                const cudnnTensorDescriptor_t aDesc, const void* A,
                                const void* beta, const cudnnTensorDescriptor_t cDesc, void* C) {
  return Protect([&] {
    HOSTGPU_REFUSE_IF(handle == nullptr || alpha == nullptr || beta == nullptr,
                      CUDNN_STATUS_BAD_PARAM);
    if (auto status = CheckReduction(reduceTensorDesc, aDesc, cDesc)) return status;
    HOSTGPU_REFUSE_IF(workspace == nullptr || workspaceSizeInBytes < WorkspaceOf(*cDesc),
                      CUDNN_STATUS_BAD_PARAM);
    DataType type{};
    void* from = nullptr;
    void* to = nullptr;
    if (auto status = ResolveTensor(handle, "A", aDesc, A, &type, &from)) return status;
    if (auto status = ResolveTensor(handle, "C", cDesc, C, &type, &to)) return status;
    const Reduction reduction = {*aDesc, *cDesc, from, to, ReadScales(alpha, beta, type)};
    return Enqueue(handle, {A, C, workspace}, [=] {
      WithElement(type, [&](auto element) { Reduce<decltype(element)>(reduction); });
    });
  });
}

}  // extern "C"
