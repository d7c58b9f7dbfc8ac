#include "tests/support/recording_cudnn.h"

namespace ucudnn::test {
namespace {

struct Shape {
  int images;
  bool wide;
};

Shape ShapeOf(cudnnTensorDescriptor_t tensor) {
  cudnnDataType_t type;
  int rank, dims[5], strides[5];
  cudnnGetTensorNdDescriptor(tensor, 5, &type, &rank, dims, strides);
  return {dims[0], type == CUDNN_DATA_DOUBLE};
}

double Scale(const void* scale, bool wide) {
  if (scale == nullptr) return 0;
  return wide ? *static_cast<const double*>(scale) : *static_cast<const float*>(scale);
}

cudnnStatus_t Record(RecordedCall call, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
                     const void* alpha, const void* beta) {
  const Shape shape = ShapeOf(x);
  call.images = ShapeOf(y).images == shape.images ? shape.images : -1;
  call.alpha = Scale(alpha, shape.wide);
  call.beta = Scale(beta, shape.wide);
  Recording& recording = ThisRecording();
  const bool fails = recording.fail_at == static_cast<int>(recording.calls.size());
  recording.calls.push_back(call);
  return fails ? recording.error : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Forward(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t x_desc,
                      const void* x, cudnnFilterDescriptor_t, const void* w,
                      cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t algorithm,
                      void* workspace, size_t bytes, const void* beta,
                      cudnnTensorDescriptor_t y_desc, void* y) {
  return Record({Operation::kForward, algorithm, 0, x, w, y, nullptr, workspace, bytes}, x_desc,
                y_desc, alpha, beta);
}

cudnnStatus_t BackwardData(cudnnHandle_t, const void* alpha, cudnnFilterDescriptor_t, const void* w,
                           cudnnTensorDescriptor_t dy_desc, const void* dy,
                           cudnnConvolutionDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm,
                           void* workspace, size_t bytes, const void* beta,
                           cudnnTensorDescriptor_t dx_desc, void* dx) {
  return Record({Operation::kBackwardData, algorithm, 0, dx, w, dy, nullptr, workspace, bytes},
                dx_desc, dy_desc, alpha, beta);
}

cudnnStatus_t BackwardFilter(cudnnHandle_t, const void* alpha, cudnnTensorDescriptor_t x_desc,
                             const void* x, cudnnTensorDescriptor_t dy_desc, const void* dy,
                             cudnnConvolutionDescriptor_t,
                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                             size_t bytes, const void* beta, cudnnFilterDescriptor_t, void* dw) {
  return Record({Operation::kBackwardFilter, algorithm, 0, x, dw, dy, nullptr, workspace, bytes},
                x_desc, dy_desc, alpha, beta);
}

cudnnStatus_t BiasActivation(cudnnHandle_t, const void* alpha1, cudnnTensorDescriptor_t x_desc,
                             const void* x, cudnnFilterDescriptor_t, const void* w,
                             cudnnConvolutionDescriptor_t, cudnnConvolutionFwdAlgo_t algorithm,
                             void* workspace, size_t bytes, const void*,
                             cudnnTensorDescriptor_t z_desc, const void* z, cudnnTensorDescriptor_t,
                             const void*, cudnnActivationDescriptor_t,
                             cudnnTensorDescriptor_t y_desc, void* y) {
  if (ShapeOf(z_desc).images != ShapeOf(y_desc).images) return CUDNN_STATUS_BAD_PARAM;
  return Record({Operation::kForward, algorithm, 0, x, w, y, z, workspace, bytes}, x_desc, y_desc,
                alpha1, nullptr);
}

cudnnStatus_t OpTensor(cudnnHandle_t, const cudnnOpTensorDescriptor_t, const void* alpha1,
                       const cudnnTensorDescriptor_t a_desc, const void* a, const void* alpha2,
                       const cudnnTensorDescriptor_t b_desc, const void* b, const void* beta,
                       const cudnnTensorDescriptor_t c_desc, void* c) {
  if (a != b || a_desc != b_desc) return CUDNN_STATUS_BAD_PARAM;
  int rank, from[5], to[5], strides[5];
  RecordedSum sum;
  cudnnGetTensorNdDescriptor(a_desc, 5, &sum.from, &rank, from, strides);
  cudnnGetTensorNdDescriptor(c_desc, 5, &sum.to, &rank, to, strides);
  sum.elements = 1;
  for (int i = 0; i < rank; ++i) {
    if (from[i] != to[i]) return CUDNN_STATUS_BAD_PARAM;
    sum.elements *= to[i];
  }
  Recording& recording = ThisRecording();
  sum.after = static_cast<int>(recording.calls.size());
  sum.input = a;
  sum.output = c;
  sum.alpha = Scale(alpha1, false) + Scale(alpha2, false);
  sum.beta = Scale(beta, false);
  const bool fails = recording.fail_sum_at == static_cast<int>(recording.sums.size());
  recording.sums.push_back(sum);
  return fails ? recording.error : CUDNN_STATUS_SUCCESS;
}

}  // namespace

Recording& ThisRecording() {
  thread_local Recording recording;
  return recording;
}

cudnn::Functions NullFunctions() {
  cudnn::Functions functions;
#define NULL_MEMBER(name) functions.name = &::name;
  UCUDNN_CUDNN_FUNCTIONS(NULL_MEMBER)
  UCUDNN_CUDNN_GRAPH_FUNCTIONS(NULL_MEMBER)
  UCUDNN_CUDNN_OP_TENSOR_FUNCTIONS(NULL_MEMBER)
  UCUDNN_CUDNN_NEWER_FUNCTIONS(NULL_MEMBER)
#undef NULL_MEMBER
  return functions;
}

cudnn::Functions RecordingFunctions() {
  cudnn::Functions functions = NullFunctions();
  functions.cudnnConvolutionForward = Forward;
  functions.cudnnConvolutionBackwardData = BackwardData;
  functions.cudnnConvolutionBackwardFilter = BackwardFilter;
  functions.cudnnConvolutionBiasActivationForward = BiasActivation;
  functions.cudnnOpTensor = OpTensor;
  return functions;
}

}  // namespace ucudnn::test
