/* A cuDNN 9 whose descriptors work and whose convolutions return at once without computing, so
 * that benchmarks time only the path to the library. Unit tests also link it and replace single
 * functions. Every algorithm below kAlgorithms supports every problem without workspace; algorithm
 * 0 is ranked first. */
#include <cudnn.h>
#include <stdlib.h>
#include <string.h>

enum { kRank = 5, kAlgorithms = 3 };

struct cudnnContext {
  cudaStream_t stream;
};
struct cudnnTensorStruct {
  cudnnDataType_t type;
  int rank, dims[kRank], strides[kRank];
};
struct cudnnFilterStruct {
  cudnnDataType_t type;
  cudnnTensorFormat_t format;
  int rank, dims[kRank];
};
struct cudnnConvolutionStruct {
  int rank, pad[kRank], stride[kRank], dilation[kRank], groups;
  cudnnConvolutionMode_t mode;
  cudnnDataType_t compute;
  cudnnMathType_t math;
};
struct cudnnOpTensorStruct {
  cudnnOpTensorOp_t operation;
};
struct cudnnActivationStruct {
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
  double coefficient;
};

static long convolutions = 0;

/* Returns the number of convolution calls so far; not part of cuDNN. */
long nullCudnnConvolutions(void) { return convolutions; }

static cudnnStatus_t Count(void) {
  ++convolutions;
  return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void) { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "an error of the null library";
}

#define NEW(out) \
  ((*(out) = calloc(1, sizeof **(out))) != NULL ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_ALLOC_FAILED)
#define LIFE(Name, Type)                                                \
  cudnnStatus_t cudnnCreate##Name(Type* object) { return NEW(object); } \
  cudnnStatus_t cudnnDestroy##Name(Type object) {                       \
    free(object);                                                       \
    return CUDNN_STATUS_SUCCESS;                                        \
  }
LIFE(, cudnnHandle_t)
LIFE(TensorDescriptor, cudnnTensorDescriptor_t)
LIFE(FilterDescriptor, cudnnFilterDescriptor_t)
LIFE(ConvolutionDescriptor, cudnnConvolutionDescriptor_t)
LIFE(ActivationDescriptor, cudnnActivationDescriptor_t)
LIFE(OpTensorDescriptor, cudnnOpTensorDescriptor_t)

cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t op, cudnnOpTensorOp_t operation,
                                         cudnnDataType_t compute, cudnnNanPropagation_t nan) {
  (void)compute, (void)nan;
  op->operation = operation;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle, const cudnnOpTensorDescriptor_t op,
                            const void* alpha1, const cudnnTensorDescriptor_t a_desc, const void* a,
                            const void* alpha2, const cudnnTensorDescriptor_t b_desc, const void* b,
                            const void* beta, const cudnnTensorDescriptor_t c_desc, void* c) {
  (void)handle, (void)op, (void)alpha1, (void)a_desc, (void)a, (void)alpha2, (void)b_desc, (void)b;
  (void)beta, (void)c_desc, (void)c;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

static void Copy(int* to, const int* from, int count) {
  memcpy(to, from, (size_t)count * sizeof *to);
}
static int Fewer(int a, int b) { return a < b ? a : b; }

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                         int rank, const int dims[], const int strides[]) {
  if (rank < 3 || rank > kRank) return CUDNN_STATUS_BAD_PARAM;
  tensor->type = type;
  tensor->rank = rank;
  Copy(tensor->dims, dims, rank);
  Copy(tensor->strides, strides, rank);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  const int dims[] = {n, c, h, w};
  const int nchw[] = {c * h * w, h * w, w, 1}, nhwc[] = {h * w * c, 1, w * c, c};
  return cudnnSetTensorNdDescriptor(tensor, type, 4, dims,
                                    format == CUDNN_TENSOR_NHWC ? nhwc : nchw);
}
cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensor, int requested,
                                         cudnnDataType_t* type, int* rank, int dims[],
                                         int strides[]) {
  *type = tensor->type;
  *rank = tensor->rank;
  Copy(dims, tensor->dims, Fewer(requested, tensor->rank));
  Copy(strides, tensor->strides, Fewer(requested, tensor->rank));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int rank, const int dims[]) {
  if (rank < 3 || rank > kRank) return CUDNN_STATUS_BAD_PARAM;
  filter->type = type;
  filter->format = format;
  filter->rank = rank;
  Copy(filter->dims, dims, rank);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  const int dims[] = {k, c, h, w};
  return cudnnSetFilterNdDescriptor(filter, type, format, 4, dims);
}
cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t filter, int requested,
                                         cudnnDataType_t* type, cudnnTensorFormat_t* format,
                                         int* rank, int dims[]) {
  *type = filter->type;
  *format = filter->format;
  *rank = filter->rank;
  Copy(dims, filter->dims, Fewer(requested, filter->rank));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution, int rank,
                                              const int pad[], const int stride[],
                                              const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (rank < 1 || rank > kRank) return CUDNN_STATUS_BAD_PARAM;
  convolution->rank = rank;
  Copy(convolution->pad, pad, rank);
  Copy(convolution->stride, stride, rank);
  Copy(convolution->dilation, dilation, rank);
  convolution->mode = mode;
  convolution->compute = compute;
  convolution->groups = 1;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  const int pads[] = {pad_h, pad_w}, strides[] = {stride_h, stride_w};
  const int dilations[] = {dilation_h, dilation_w};
  return cudnnSetConvolutionNdDescriptor(convolution, 2, pads, strides, dilations, mode, compute);
}
cudnnStatus_t cudnnGetConvolutionNdDescriptor(const cudnnConvolutionDescriptor_t convolution,
                                              int requested, int* rank, int pad[], int stride[],
                                              int dilation[], cudnnConvolutionMode_t* mode,
                                              cudnnDataType_t* compute) {
  const int count = Fewer(requested, convolution->rank);
  *rank = convolution->rank;
  Copy(pad, convolution->pad, count);
  Copy(stride, convolution->stride, count);
  Copy(dilation, convolution->dilation, count);
  *mode = convolution->mode;
  *compute = convolution->compute;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int* groups) {
  *groups = convolution->groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t math) {
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t* math) {
  *math = convolution->math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double coefficient) {
  activation->mode = mode;
  activation->nan = nan;
  activation->coefficient = coefficient;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetActivationDescriptor(const cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t* mode, cudnnNanPropagation_t* nan,
                                           double* coefficient) {
  *mode = activation->mode;
  *nan = activation->nan;
  *coefficient = activation->coefficient;
  return CUDNN_STATUS_SUCCESS;
}

#define UNUSED(name) const void* name __attribute__((unused))

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, UNUSED(alpha),
                                      const cudnnTensorDescriptor_t x_desc, UNUSED(x),
                                      const cudnnFilterDescriptor_t w_desc, UNUSED(w),
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      size_t bytes, UNUSED(beta),
                                      const cudnnTensorDescriptor_t y_desc, void* y) {
  (void)handle, (void)x_desc, (void)w_desc, (void)convolution, (void)algorithm;
  (void)workspace, (void)bytes, (void)y_desc, (void)y;
  return Count();
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, UNUSED(alpha),
                                           const cudnnFilterDescriptor_t w_desc, UNUSED(w),
                                           const cudnnTensorDescriptor_t dy_desc, UNUSED(dy),
                                           const cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t bytes, UNUSED(beta),
                                           const cudnnTensorDescriptor_t dx_desc, void* dx) {
  (void)handle, (void)w_desc, (void)dy_desc, (void)convolution, (void)algorithm;
  (void)workspace, (void)bytes, (void)dx_desc, (void)dx;
  return Count();
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, UNUSED(alpha),
                                             const cudnnTensorDescriptor_t x_desc, UNUSED(x),
                                             const cudnnTensorDescriptor_t dy_desc, UNUSED(dy),
                                             const cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* workspace, size_t bytes, UNUSED(beta),
                                             const cudnnFilterDescriptor_t dw_desc, void* dw) {
  (void)handle, (void)x_desc, (void)dy_desc, (void)convolution, (void)algorithm;
  (void)workspace, (void)bytes, (void)dw_desc, (void)dw;
  return Count();
}
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, UNUSED(alpha1), const cudnnTensorDescriptor_t x_desc, UNUSED(x),
    const cudnnFilterDescriptor_t w_desc, UNUSED(w), const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes, UNUSED(alpha2),
    const cudnnTensorDescriptor_t z_desc, UNUSED(z), const cudnnTensorDescriptor_t bias_desc,
    UNUSED(bias), const cudnnActivationDescriptor_t activation,
    const cudnnTensorDescriptor_t y_desc, void* y) {
  (void)handle, (void)x_desc, (void)w_desc, (void)convolution, (void)algorithm;
  (void)workspace, (void)bytes, (void)z_desc, (void)bias_desc, (void)activation;
  (void)y_desc, (void)y;
  return Count();
}

/* Defines the queries of one operation. A and B are the types of the descriptors before the
 * convolution descriptor, and D the type of the one behind it, in cuDNN's order. */
#define QUERIES(Operation, Kind, A, B, D)                                                          \
  cudnnStatus_t cudnnGetConvolution##Operation##WorkspaceSize(                                     \
      cudnnHandle_t handle, const A a, const B b, const cudnnConvolutionDescriptor_t c, const D d, \
      cudnnConvolution##Kind##Algo_t algorithm, size_t* bytes) {                                   \
    (void)handle, (void)a, (void)b, (void)c, (void)d;                                              \
    *bytes = 0;                                                                                    \
    return (int)algorithm < kAlgorithms ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;       \
  }                                                                                                \
  cudnnStatus_t cudnnGetConvolution##Operation##Algorithm_v7(                                      \
      cudnnHandle_t handle, const A a, const B b, const cudnnConvolutionDescriptor_t c, const D d, \
      const int requested, int* returned, cudnnConvolution##Kind##AlgoPerf_t* results) {           \
    (void)handle, (void)a, (void)b, (void)d;                                                       \
    *returned = Fewer(requested, kAlgorithms);                                                     \
    for (int i = 0; i < *returned; ++i) {                                                          \
      memset(&results[i], 0, sizeof results[i]);                                                   \
      results[i].algo = (cudnnConvolution##Kind##Algo_t)i;                                         \
      results[i].time = (float)(1 + i);                                                            \
      results[i].determinism = CUDNN_DETERMINISTIC;                                                \
      results[i].mathType = c->math;                                                               \
    }                                                                                              \
    return CUDNN_STATUS_SUCCESS;                                                                   \
  }                                                                                                \
  cudnnStatus_t cudnnFindConvolution##Operation##Algorithm(                                        \
      cudnnHandle_t handle, const A a, const B b, const cudnnConvolutionDescriptor_t c, const D d, \
      const int requested, int* returned, cudnnConvolution##Kind##AlgoPerf_t* results) {           \
    return cudnnGetConvolution##Operation##Algorithm_v7(handle, a, b, c, d, requested, returned,   \
                                                        results);                                  \
  }                                                                                                \
  cudnnStatus_t cudnnFindConvolution##Operation##AlgorithmEx(                                      \
      cudnnHandle_t handle, const A a, UNUSED(a_data), const B b, UNUSED(b_data),                  \
      const cudnnConvolutionDescriptor_t c, const D d, void* d_data, const int requested,          \
      int* returned, cudnnConvolution##Kind##AlgoPerf_t* results, void* workspace, size_t bytes) { \
    (void)d_data, (void)workspace, (void)bytes;                                                    \
    return cudnnGetConvolution##Operation##Algorithm_v7(handle, a, b, c, d, requested, returned,   \
                                                        results);                                  \
  }
QUERIES(Forward, Fwd, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t)
QUERIES(BackwardData, BwdData, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
        cudnnTensorDescriptor_t)
QUERIES(BackwardFilter, BwdFilter, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
        cudnnFilterDescriptor_t)
