#include "cudnn/descriptors.h"

#include <array>
#include <utility>

namespace ucudnn::cudnn {
namespace {

constexpr int kMaxRank = kMaxSpatial + 2;
using Extents5 = std::array<int, kMaxRank>;

bool ToDataType(cudnnDataType_t from, DataType& to) {
  switch (from) {
    case CUDNN_DATA_FLOAT:
      to = DataType::kFloat;
      return true;
    case CUDNN_DATA_HALF:
      to = DataType::kHalf;
      return true;
    case CUDNN_DATA_BFLOAT16:
      to = DataType::kBfloat16;
      return true;
    case CUDNN_DATA_DOUBLE:
      to = DataType::kDouble;
      return true;
    default:
      return false;
  }
}

struct DescribedTensor {
  cudnnDataType_t type;
  int rank;
  Extents5 extents;  // n, c, then rank - 2 spatial axes
  Extents5 strides;
};

bool ReadDescriptor(const Functions& functions, cudnnTensorDescriptor_t descriptor,
                    DescribedTensor& tensor) {
  tensor.extents.fill(0);
  tensor.strides.fill(0);
  return descriptor != nullptr &&
         functions.cudnnGetTensorNdDescriptor(descriptor, kMaxRank, &tensor.type, &tensor.rank,
                                              tensor.extents.data(),
                                              tensor.strides.data()) == CUDNN_STATUS_SUCCESS;
}

// Returns the strides in the order n, c, d, h, w. For a 2-D tensor, d = 1, and the stride of d is
// the height's stride times the height.
Strides WidenStrides(const DescribedTensor& tensor) {
  if (tensor.rank == kMaxRank) {
    Strides strides;
    for (int i = 0; i < kMaxRank; ++i) strides[i] = tensor.strides[i];
    return strides;
  }
  const int64_t plane = static_cast<int64_t>(tensor.strides[2]) * tensor.extents[2];
  return {tensor.strides[0], tensor.strides[1], plane, tensor.strides[2], tensor.strides[3]};
}

// Returns the number of elements that a tensor spans, from its first to its last.
size_t Span(int64_t n, int64_t channels, const Spatial& extents, const Strides& strides) {
  int64_t last = (n - 1) * strides[0] + (channels - 1) * strides[1];
  for (int axis = 0; axis < kMaxSpatial; ++axis) last += (extents[axis] - 1) * strides[axis + 2];
  return static_cast<size_t>(last + 1);
}

int TensorRank(const ConvolutionProblem& problem) { return problem.spatial_rank + 2; }

// Returns n, channels and `extents` in the form that cuDNN's Nd functions take: without d in 2-D.
Extents5 NarrowExtents(const ConvolutionProblem& problem, int n, int channels,
                       const Spatial& extents) {
  Extents5 narrow = {n, channels};
  for (int i = 0; i < problem.spatial_rank; ++i) {
    narrow[2 + i] = extents[kMaxSpatial - problem.spatial_rank + i];
  }
  return narrow;
}

Status SetTensor(const Functions& functions, const ConvolutionProblem& problem, int channels,
                 const Spatial& extents, const Strides& strides,
                 cudnnTensorDescriptor_t& descriptor) {
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions, functions.cudnnCreateTensorDescriptor(&descriptor),
                                     "creating a descriptor"));
  const Extents5 sizes = NarrowExtents(problem, problem.n, channels, extents);
  Extents5 steps = {static_cast<int>(strides[0]), static_cast<int>(strides[1])};
  for (int i = 0; i < problem.spatial_rank; ++i) {
    steps[2 + i] = static_cast<int>(strides[kMaxRank - problem.spatial_rank + i]);
  }
  return CudnnStatus(
      functions,
      functions.cudnnSetTensorNdDescriptor(descriptor, CudnnType(problem.type), TensorRank(problem),
                                           sizes.data(), steps.data()),
      "describing a tensor");
}

}  // namespace

Status CreateTensor(const Functions& functions, const ConvolutionProblem& problem,
                    const Spatial& extents, const Strides& strides,
                    cudnnTensorDescriptor_t& descriptor) {
  return SetTensor(functions, problem, problem.c, extents, strides, descriptor);
}

cudnnDataType_t CudnnType(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return CUDNN_DATA_FLOAT;
    case DataType::kHalf:
      return CUDNN_DATA_HALF;
    case DataType::kBfloat16:
      return CUDNN_DATA_BFLOAT16;
    case DataType::kDouble:
      return CUDNN_DATA_DOUBLE;
  }
  return CUDNN_DATA_FLOAT;
}

const char* ReadProblem(const Functions& functions, Operation operation,
                        const Descriptors& descriptors, ConvolutionProblem& problem) {
  problem = ConvolutionProblem{};
  DescribedTensor x, y;
  if (!ReadDescriptor(functions, descriptors.x, x) ||
      !ReadDescriptor(functions, descriptors.y, y)) {
    return "a tensor descriptor cannot be read";
  }
  cudnnDataType_t filter_type;
  cudnnTensorFormat_t format;
  int filter_rank = 0;
  Extents5 filter = {};
  if (descriptors.w == nullptr ||
      functions.cudnnGetFilterNdDescriptor(descriptors.w, kMaxRank, &filter_type, &format,
                                           &filter_rank, filter.data()) != CUDNN_STATUS_SUCCESS) {
    return "the filter descriptor cannot be read";
  }
  int spatial_rank = 0, groups = 1;
  std::array<int, kMaxSpatial> pad = {}, stride = {}, dilation = {};
  cudnnConvolutionMode_t mode;
  cudnnDataType_t compute;
  cudnnMathType_t math;
  const cudnnConvolutionDescriptor_t convolution = descriptors.convolution;
  if (convolution == nullptr ||
      functions.cudnnGetConvolutionNdDescriptor(convolution, kMaxSpatial, &spatial_rank, pad.data(),
                                                stride.data(), dilation.data(), &mode,
                                                &compute) != CUDNN_STATUS_SUCCESS ||
      functions.cudnnGetConvolutionMathType(convolution, &math) != CUDNN_STATUS_SUCCESS ||
      functions.cudnnGetConvolutionGroupCount(convolution, &groups) != CUDNN_STATUS_SUCCESS) {
    return "the convolution descriptor cannot be read";
  }
  if (spatial_rank != 2 && spatial_rank != 3) return "the convolution is neither 2-D nor 3-D";
  if (x.rank != spatial_rank + 2 || y.rank != x.rank || filter_rank != x.rank) {
    return "the tensors' dimensions do not match the convolution's";
  }
  if (x.type != y.type || x.type != filter_type || !ToDataType(x.type, problem.type) ||
      !ToDataType(compute, problem.compute)) {
    return "the data types are not one floating-point type";
  }
  if (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC) {
    return "the filter layout is vectorised";
  }
  problem.operation = operation;
  problem.spatial_rank = spatial_rank;
  problem.n = x.extents[0];
  problem.c = x.extents[1];
  problem.k = filter[0];
  problem.groups = groups;
  for (int i = 0; i < spatial_rank; ++i) {
    const int axis = kMaxSpatial - spatial_rank + i;
    problem.x[axis] = x.extents[2 + i];
    problem.w[axis] = filter[2 + i];
    problem.pad[axis] = pad[i];
    problem.stride[axis] = stride[i];
    problem.dilation[axis] = dilation[i];
  }
  problem.layout = format == CUDNN_TENSOR_NHWC ? Layout::kNhwc : Layout::kNchw;
  problem.mode = mode == CUDNN_CONVOLUTION ? ConvolutionMode::kConvolution
                                           : ConvolutionMode::kCrossCorrelation;
  problem.math = static_cast<MathType>(math);
  problem.alignment = kLegacyAlignment;
  problem.x_strides = WidenStrides(x);
  problem.y_strides = WidenStrides(y);

  if (problem.n < 1 || problem.c < 1 || problem.k < 1 || groups < 1 ||
      static_cast<int64_t>(filter[1]) * groups != problem.c || problem.k % groups != 0 ||
      y.extents[0] != problem.n || y.extents[1] != problem.k) {
    return "the tensors' extents do not match the filter's";
  }
  const Spatial output = OutputExtents(problem);
  for (int i = 0; i < spatial_rank; ++i) {
    if (y.extents[2 + i] != output[kMaxSpatial - spatial_rank + i]) {
      return "the output extents do not match the convolution";
    }
  }
  for (int i = 0; i < x.rank; ++i) {
    if (x.strides[i] < 1 || y.strides[i] < 1) return "a tensor stride is not positive";
  }
  return nullptr;
}

const char* ReadBiasGradient(const Functions& functions, cudnnTensorDescriptor_t dy,
                             cudnnTensorDescriptor_t db, ConvolutionProblem& problem) {
  problem = ConvolutionProblem{};
  DescribedTensor y, bias;
  if (!ReadDescriptor(functions, dy, y) || !ReadDescriptor(functions, db, bias)) {
    return "a tensor descriptor cannot be read";
  }
  if (y.rank != 4 && y.rank != 5) return "dy is neither 2-D nor 3-D";
  if (y.type != bias.type || !ToDataType(y.type, problem.type)) {
    return "the data types are not one floating-point type";
  }
  for (int i = 0; i < bias.rank; ++i) {
    if (bias.extents[i] != (i == 1 ? y.extents[1] : 1)) return "db is no bias of dy";
  }
  if (bias.strides[1] != 1) return "db is not packed";
  problem.operation = Operation::kBackwardFilter;
  problem.spatial_rank = y.rank - 2;
  problem.n = y.extents[0];
  problem.k = y.extents[1];
  problem.compute = problem.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  for (int i = 0; i < problem.spatial_rank; ++i) {
    problem.x[kMaxSpatial - problem.spatial_rank + i] = y.extents[2 + i];
  }
  problem.x_strides = PackedStrides(problem.layout, 1, problem.x);
  problem.y_strides = WidenStrides(y);
  return nullptr;
}

const char* ReadChannelwise(const Functions& functions, cudnnTensorDescriptor_t x_descriptor,
                            cudnnTensorDescriptor_t y_descriptor, ConvolutionProblem& problem,
                            Spatial& y_extents) {
  problem = ConvolutionProblem{};
  y_extents = {1, 1, 1};
  DescribedTensor x, y;
  if (!ReadDescriptor(functions, x_descriptor, x) || !ReadDescriptor(functions, y_descriptor, y)) {
    return "a tensor descriptor cannot be read";
  }
  if ((x.rank != 4 && x.rank != 5) || y.rank != x.rank) return "x and y are not both 2-D or 3-D";
  if (x.type != y.type || !ToDataType(x.type, problem.type)) {
    return "the data types are not one floating-point type";
  }
  if (x.extents[0] != y.extents[0] || x.extents[1] != y.extents[1]) {
    return "x and y have not equally many images and channels";
  }
  problem.spatial_rank = x.rank - 2;
  problem.n = x.extents[0];
  problem.c = problem.k = problem.groups = x.extents[1];
  problem.compute = problem.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  for (int i = 0; i < problem.spatial_rank; ++i) {
    const int axis = kMaxSpatial - problem.spatial_rank + i;
    problem.x[axis] = x.extents[2 + i];
    y_extents[axis] = y.extents[2 + i];
  }
  for (int i = 0; i < x.rank; ++i) {
    if (x.strides[i] < 1 || y.strides[i] < 1) return "a tensor stride is not positive";
  }
  problem.x_strides = WidenStrides(x);
  problem.y_strides = WidenStrides(y);
  return nullptr;
}

const char* ReadRowsBeside(const Functions& functions, cudnnTensorDescriptor_t x_descriptor,
                           cudnnTensorDescriptor_t y_descriptor, ConvolutionProblem& problem) {
  Spatial y = {};
  if (const char* const unreadable =
          ReadChannelwise(functions, x_descriptor, y_descriptor, problem, y)) {
    return unreadable;
  }
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int more = y[axis] - problem.x[axis];
    if (more < 0 || more % 2 != 0) return "y has not as many rows more on both sides of x";
    problem.pad[axis] = more / 2;
    problem.w[axis] = more + 1;
  }
  return nullptr;
}

bool SameTensor(const Functions& functions, cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t b) {
  DescribedTensor first, second;
  return ReadDescriptor(functions, a, first) && ReadDescriptor(functions, b, second) &&
         first.type == second.type && first.rank == second.rank &&
         first.extents == second.extents && first.strides == second.strides;
}

OwnedDescriptors::~OwnedDescriptors() {
  if (descriptors_.x != nullptr) functions_->cudnnDestroyTensorDescriptor(descriptors_.x);
  if (descriptors_.y != nullptr) functions_->cudnnDestroyTensorDescriptor(descriptors_.y);
  if (descriptors_.w != nullptr) functions_->cudnnDestroyFilterDescriptor(descriptors_.w);
  if (descriptors_.convolution != nullptr) {
    functions_->cudnnDestroyConvolutionDescriptor(descriptors_.convolution);
  }
}

OwnedDescriptors::OwnedDescriptors(OwnedDescriptors&& other) noexcept
    : functions_(other.functions_), descriptors_(std::exchange(other.descriptors_, {})) {}

Status OwnedDescriptors::CreateTensors(const ConvolutionProblem& problem) {
  UCUDNN_RETURN_IF_ERROR(
      SetTensor(*functions_, problem, problem.c, problem.x, problem.x_strides, descriptors_.x));
  return SetTensor(*functions_, problem, problem.k, OutputExtents(problem), problem.y_strides,
                   descriptors_.y);
}

Status OwnedDescriptors::Create(const ConvolutionProblem& problem) {
  const Functions& f = *functions_;
  if (!problem.HasEvenPads()) {
    return Status::Error("describing a convolution: pads of the legacy API are the same behind");
  }
  UCUDNN_RETURN_IF_ERROR(CreateTensors(problem));
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(f, f.cudnnCreateFilterDescriptor(&descriptors_.w), "creating a descriptor"));
  const Extents5 filter = NarrowExtents(problem, problem.k, problem.c / problem.groups, problem.w);
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(f,
                  f.cudnnSetFilterNdDescriptor(
                      descriptors_.w, CudnnType(problem.type),
                      problem.layout == Layout::kNhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                      TensorRank(problem), filter.data()),
                  "describing a filter"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      f, f.cudnnCreateConvolutionDescriptor(&descriptors_.convolution), "creating a descriptor"));
  const int first = kMaxSpatial - problem.spatial_rank;
  const cudnnConvolutionDescriptor_t convolution = descriptors_.convolution;
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(f,
                  f.cudnnSetConvolutionNdDescriptor(
                      convolution, problem.spatial_rank, problem.pad.data() + first,
                      problem.stride.data() + first, problem.dilation.data() + first,
                      problem.mode == ConvolutionMode::kConvolution ? CUDNN_CONVOLUTION
                                                                    : CUDNN_CROSS_CORRELATION,
                      CudnnType(problem.compute)),
                  "describing a convolution"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      f, f.cudnnSetConvolutionGroupCount(convolution, problem.groups), "setting groups"));
  return CudnnStatus(
      f, f.cudnnSetConvolutionMathType(convolution, static_cast<cudnnMathType_t>(problem.math)),
      "setting the math type");
}

size_t ImageBytes(const ConvolutionProblem& problem) {
  return Span(problem.n, problem.c, problem.x, problem.x_strides) * ElementBytes(problem.type);
}

size_t FilterBytes(const ConvolutionProblem& problem) {
  return static_cast<size_t>(problem.k) * (problem.c / problem.groups) * problem.w[0] *
         problem.w[1] * problem.w[2] * ElementBytes(problem.type);
}

size_t OutputBytes(const ConvolutionProblem& problem) {
  return Span(problem.n, problem.k, OutputExtents(problem), problem.y_strides) *
         ElementBytes(problem.type);
}

size_t ResultBytes(const ConvolutionProblem& problem) {
  switch (problem.operation) {
    case Operation::kForward:
      return OutputBytes(problem);
    case Operation::kBackwardData:
      return ImageBytes(problem);
    case Operation::kBackwardFilter:
      break;
  }
  return FilterBytes(problem);
}

}  // namespace ucudnn::cudnn
