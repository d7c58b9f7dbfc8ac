#include "shim/host/cudnn/graph/tensor_operation.h"

namespace hostgpu {
namespace {

cudnnStatus_t CheckConcatenation(const TensorOperation& operation) {
  const GraphTensor& y = operation.outputs[0];
  const int64_t axis = operation.axis;
  const auto count = static_cast<int64_t>(operation.inputs.size());
  HOSTGPU_REFUSE_IF(count == 0, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(axis < 0 || axis >= y.dim_count, CUDNN_STATUS_BAD_PARAM);
  HOSTGPU_REFUSE_IF(operation.in_place_index < -1 || operation.in_place_index >= count,
                    CUDNN_STATUS_BAD_PARAM);
  int64_t extent = 0;
  for (const GraphTensor& input : operation.inputs) {
    HOSTGPU_REFUSE_IF(input.dim_count != y.dim_count, CUDNN_STATUS_BAD_PARAM);
    for (int i = 0; i < y.dim_count; ++i) {
      HOSTGPU_REFUSE_IF(i != axis && input.dims[i] != y.dims[i], CUDNN_STATUS_BAD_PARAM);
    }
    HOSTGPU_REFUSE_IF(__builtin_add_overflow(extent, input.dims[axis], &extent),
                      CUDNN_STATUS_BAD_PARAM);
  }
  HOSTGPU_REFUSE_IF(extent != y.dims[axis], CUDNN_STATUS_BAD_PARAM);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t TakeTensors(const Attribute& attribute, std::vector<GraphTensor>* tensors) {
  HOSTGPU_REFUSE_IF(attribute.type != CUDNN_TYPE_BACKEND_DESCRIPTOR || attribute.count < 1,
                    CUDNN_STATUS_BAD_PARAM);
  tensors->clear();
  for (int64_t i = 0; i < attribute.count; ++i) {
    void* handle = attribute.Value<void*>(i);
    HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    const GraphTensor* tensor = As<GraphTensor>(handle);
    HOSTGPU_REFUSE_IF(tensor == nullptr, CUDNN_STATUS_BAD_PARAM);
    tensors->push_back(*tensor);
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const std::vector<TensorOperationSchema>& TensorOperations() {
  static const auto* schemas = new std::vector<TensorOperationSchema>{
      {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
       "CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR",
       {{CUDNN_ATTR_OPERATION_GENSTATS_XDESC, "X"}},
       {{CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, "Sum"},
        {CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, "SqSum"}}},
      {CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
       "CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR",
       {{CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, "X"},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, "dY"},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, "mean"},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, "invStd"},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, "bnScale"}},
       {{CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, "dBnScale"},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, "dBnBias"},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, "eqDyScale"},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, "eqXScale"},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, "eqBias"}}},
      {CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR,
       "CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR",
       {},
       {{CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, "Y"}}},
  };
  return *schemas;
}

TensorOperation::TensorOperation(cudnnBackendDescriptorType_t kind)
    : GraphDescriptor(kind), inputs(schema().inputs.size()), outputs(schema().outputs.size()) {}

const TensorOperationSchema& TensorOperation::schema() const {
  const auto& all = TensorOperations();
  return *std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.kind == kind(); });
}

cudnnStatus_t TensorOperation::Set(const Attribute& attribute) {
  const auto take = [&](const std::vector<TensorRole>& roles, std::vector<GraphTensor>& tensors) {
    for (size_t i = 0; i < roles.size(); ++i) {
      if (roles[i].attribute == attribute.name) return &tensors[i];
    }
    return static_cast<GraphTensor*>(nullptr);
  };
  GraphTensor* tensor = take(schema().inputs, inputs);
  if (tensor == nullptr) tensor = take(schema().outputs, outputs);
  if (tensor != nullptr) {
    return TakeChild(attribute, tensor, CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM);
  }
  if (concatenates()) {
    switch (attribute.name) {
      case CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS:
        return TakeTensors(attribute, &inputs);
      case CUDNN_ATTR_OPERATION_CONCAT_AXIS:
        return attribute.One(CUDNN_TYPE_INT64, &axis);
      case CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX:
        return attribute.One(CUDNN_TYPE_INT64, &in_place_index);
      default:
        return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a concatenation");
    }
  }
  if (attribute.name == CUDNN_ATTR_OPERATION_GENSTATS_MODE &&
      kind() == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR) {
    int mode = CUDNN_GENSTATS_SUM_SQSUM;  // cuDNN has no other mode
    return attribute.One(CUDNN_TYPE_GENSTATS_MODE, &mode);
  }
  const auto precision = kind() == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR
                             ? CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC
                             : CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC;
  HOSTGPU_REFUSE_IF(attribute.name != precision, CUDNN_STATUS_BAD_PARAM);
  return attribute.One(CUDNN_TYPE_DATA_TYPE, &math_precision);
}

cudnnStatus_t TensorOperation::Get(const AttributeRequest&) const {
  return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "an operation that is not read back");
}

// Sums are not checked here, but when they are converted for an engine, as in the real library.
cudnnStatus_t TensorOperation::Complete() {
  if (!concatenates()) return CUDNN_STATUS_SUCCESS;
  HOSTGPU_REFUSE_IF(!outputs[0].finalized(), CUDNN_STATUS_BAD_PARAM);
  for (const GraphTensor& input : inputs) {
    HOSTGPU_REFUSE_IF(!input.finalized(), CUDNN_STATUS_BAD_PARAM);
  }
  return CheckConcatenation(*this);
}

}  // namespace hostgpu
