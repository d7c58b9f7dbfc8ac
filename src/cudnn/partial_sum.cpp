#include "cudnn/partial_sum.h"

#include <array>

#include "convolution/partial_sums.h"

namespace ucudnn::cudnn {
namespace {

constexpr float kZero = 0, kHalf = 0.5f, kOne = 1;

void* Advance(void* pointer, size_t bytes) { return static_cast<char*>(pointer) + bytes; }

}  // namespace

PartialSum::PartialSum(const Functions& functions, const ConvolutionProblem& problem)
    : functions_(functions),
      accumulator_bytes_(AccumulatorBytes(problem)),
      bytes_(PartialSumBytes(problem)) {}

PartialSum::~PartialSum() {
  if (add_ != nullptr) functions_.cudnnDestroyOpTensorDescriptor(add_);
  if (partial_ != nullptr) functions_.cudnnDestroyTensorDescriptor(partial_);
  if (sum_ != nullptr) functions_.cudnnDestroyTensorDescriptor(sum_);
}

Result<std::unique_ptr<PartialSum>> PartialSum::Create(const Functions& functions,
                                                       const ConvolutionProblem& problem) {
  if (!functions.HasOpTensor()) return Status::Error("the real cuDNN lacks cudnnOpTensor");
  std::unique_ptr<PartialSum> made(new PartialSum(functions, problem));
  UCUDNN_RETURN_IF_ERROR(made->Describe(problem));
  return made;
}

// Creates the descriptors. Filters are packed in every layout, and a sum does not depend on the
// order of the elements, so one order is enough for all layouts.
Status PartialSum::Describe(const ConvolutionProblem& problem) {
  std::array<int, kMaxSpatial + 2> extents = {problem.k, problem.c / problem.groups};
  const int rank = problem.spatial_rank + 2;
  for (int i = 2; i < rank; ++i) {
    extents[i] = problem.w[kMaxSpatial - problem.spatial_rank + i - 2];
  }
  std::array<int, kMaxSpatial + 2> strides = {};
  int elements = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[i] = elements;
    elements *= extents[i];
  }
  const cudnnDataType_t type =
      problem.type == DataType::kHalf ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  for (const auto& [tensor, element] :
       {std::pair{&partial_, type}, std::pair{&sum_, CUDNN_DATA_FLOAT}}) {
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions_, functions_.cudnnCreateTensorDescriptor(tensor),
                                       "creating a descriptor"));
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions_,
                                       functions_.cudnnSetTensorNdDescriptor(
                                           *tensor, element, rank, extents.data(), strides.data()),
                                       "describing a partial"));
  }
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions_, functions_.cudnnCreateOpTensorDescriptor(&add_),
                                     "creating a descriptor"));
  return CudnnStatus(functions_,
                     functions_.cudnnSetOpTensorDescriptor(add_, CUDNN_OP_TENSOR_ADD,
                                                           CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN),
                     "describing a sum");
}

void* PartialSum::Partial(void* workspace) const { return Advance(workspace, accumulator_bytes_); }

void* PartialSum::EngineWorkspace(void* workspace) const { return Advance(workspace, bytes_); }

// cudnnOpTensor adds two inputs, so the partial is passed twice with a scale of 0.5. That is exact
// and keeps infinities; the scales 1 and 0 would turn infinities into NaN.
cudnnStatus_t PartialSum::Add(cudnnHandle_t handle, void* workspace, bool first) const {
  const void* const partial = Partial(workspace);
  return functions_.cudnnOpTensor(handle, add_, &kHalf, partial_, partial, &kHalf, partial_,
                                  partial, first ? &kZero : &kOne, sum_, workspace);
}

cudnnStatus_t PartialSum::Store(cudnnHandle_t handle, void* workspace, const void* alpha,
                                const void* beta, void* output) const {
  const float half = kHalf * *static_cast<const float*>(alpha);
  return functions_.cudnnOpTensor(handle, add_, &half, sum_, workspace, &half, sum_, workspace,
                                  beta, partial_, output);
}

}  // namespace ucudnn::cudnn
