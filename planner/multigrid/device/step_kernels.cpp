#include "planner/multigrid/device/step_kernels.h"

#include <algorithm>
#include <utility>

#include "cudnn/convolution_call.h"

namespace ucudnn::multigrid {
namespace {

constexpr float kOne = 1;
constexpr float kZero = 0;

}  // namespace

Result<DeviceNumbers> DeviceNumbers::Make(const DeviceTarget& target, int64_t count) {
  const cuda::ContextScope scope(*target.driver, target.context);
  CUdeviceptr address = 0;
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(float);
  const CUresult result = target.driver->cuMemAlloc(&address, bytes);
  if (result != CUDA_SUCCESS) {
    return Status::Error("no device memory for " + std::to_string(bytes) + " bytes: " +
                         cuda::DriverStatus(*target.driver, result, "cuMemAlloc").message());
  }
  return DeviceNumbers(target, address, count);
}

DeviceNumbers::DeviceNumbers(DeviceNumbers&& other) noexcept
    : target_(other.target_), address_(std::exchange(other.address_, 0)), count_(other.count_) {}

DeviceNumbers& DeviceNumbers::operator=(DeviceNumbers&& other) noexcept {
  std::swap(target_, other.target_);
  std::swap(address_, other.address_);
  std::swap(count_, other.count_);
  return *this;
}

DeviceNumbers::~DeviceNumbers() {
  if (address_ == 0) return;
  const cuda::ContextScope scope(*target_.driver, target_.context);
  target_.driver->cuMemFree(address_);
}

Result<std::unique_ptr<DeviceLane>> DeviceLane::Make(const DeviceTarget& target, int64_t room,
                                                     size_t workspace) {
  const cuda::ContextScope scope(*target.driver, target.context);
  const cudnn::Functions& functions = *target.functions;
  std::unique_ptr<DeviceLane> lane(new DeviceLane(target));
  UCUDNN_RETURN_IF_ERROR(lane->stream_.Create());
  UCUDNN_RETURN_IF_ERROR(lane->reached_.CreateUntimed());
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(functions, functions.cudnnCreate(&lane->handle_), "cudnnCreate"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions, functions.cudnnSetStream(lane->handle_, lane->stream()), "cudnnSetStream"));
  UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers scratch, DeviceNumbers::Make(target, room));
  lane->room_.emplace(std::move(scratch));
  if (workspace > 0) {
    const auto numbers = static_cast<int64_t>((workspace + sizeof(float) - 1) / sizeof(float));
    UCUDNN_ASSIGN_OR_RETURN(DeviceNumbers memory, DeviceNumbers::Make(target, numbers));
    lane->workspace_.emplace(std::move(memory));
  }
  return lane;
}

DeviceLane::~DeviceLane() {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  if (stream_.get() != nullptr) target_.driver->cuStreamSynchronize(stream_.get());
  if (handle_ != nullptr) target_.functions->cudnnDestroy(handle_);
}

Status DeviceLane::Record() {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  return reached_.Record(stream_.get());
}

Status DeviceLane::LetFollow(const DeviceLane& other) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  return reached_.HoldBack(other.stream());
}

Status DeviceLane::Wait() {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  return stream_.Synchronize();
}

Status DeviceLane::Copy(const float* from, float* to, int64_t count) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  return cuda::DriverStatus(
      *target_.driver,
      target_.driver->cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to),
                                        reinterpret_cast<CUdeviceptr>(from),
                                        static_cast<size_t>(count) * sizeof(float), stream_.get()),
      "cuMemcpyDtoDAsync");
}

Status DeviceLane::Upload(const float* from, float* to, int64_t count) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      *target_.driver,
      target_.driver->cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), from,
                                        static_cast<size_t>(count) * sizeof(float), stream_.get()),
      "cuMemcpyHtoDAsync"));
  return stream_.Synchronize();
}

Status DeviceLane::Download(const float* from, float* to, int64_t count) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      *target_.driver,
      target_.driver->cuMemcpyDtoHAsync(to, reinterpret_cast<CUdeviceptr>(from),
                                        static_cast<size_t>(count) * sizeof(float), stream_.get()),
      "cuMemcpyDtoHAsync"));
  return stream_.Synchronize();
}

// Descriptors and the algorithm for so many steps side by side.
struct StepKernels::Prepared {
  explicit Prepared(const cudnn::Functions& table) : functions(table) {}
  ~Prepared() {
    for (const cudnnTensorDescriptor_t tensor : {x, out, value, bias}) {
      if (tensor != nullptr) functions.cudnnDestroyTensorDescriptor(tensor);
    }
    if (weights != nullptr) functions.cudnnDestroyFilterDescriptor(weights);
    if (convolution != nullptr) functions.cudnnDestroyConvolutionDescriptor(convolution);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  const cudnn::Functions& functions;
  cudnnTensorDescriptor_t x = nullptr;
  cudnnTensorDescriptor_t out = nullptr;
  cudnnTensorDescriptor_t value = nullptr;  // of what the convolution gives, packed
  cudnnTensorDescriptor_t bias = nullptr;
  cudnnFilterDescriptor_t weights = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  size_t workspace = 0;

  // [batch, channels, rows, columns], an image `image_stride` numbers behind the one before.
  Status MakeTensor(cudnnTensorDescriptor_t& tensor, int batch, int channels, const StepShape& step,
                    int64_t image_stride) const {
    const int dims[] = {batch, channels, step.rows, step.columns};
    const int strides[] = {static_cast<int>(image_stride), step.rows * step.columns, step.columns,
                           1};
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions, functions.cudnnCreateTensorDescriptor(&tensor),
                                       "cudnnCreateTensorDescriptor"));
    return CudnnStatus(
        functions, functions.cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, dims, strides),
        "cudnnSetTensorNdDescriptor");
  }
  Status MakeConvolution(const StepShape& step, int count) {
    const int filter[] = {count * step.channels, step.channels / step.groups, step.kernel_rows,
                          step.kernel_columns};
    const int pad[] = {step.kernel_rows / 2, step.kernel_columns / 2};
    const int ones[] = {1, 1};
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions, functions.cudnnCreateFilterDescriptor(&weights),
                                       "cudnnCreateFilterDescriptor"));
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions,
                                       functions.cudnnSetFilterNdDescriptor(
                                           weights, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, filter),
                                       "cudnnSetFilterNdDescriptor"));
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions,
                                       functions.cudnnCreateConvolutionDescriptor(&convolution),
                                       "cudnnCreateConvolutionDescriptor"));
    UCUDNN_RETURN_IF_ERROR(
        CudnnStatus(functions,
                    functions.cudnnSetConvolutionNdDescriptor(
                        convolution, 2, pad, ones, ones, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                    "cudnnSetConvolutionNdDescriptor"));
    UCUDNN_RETURN_IF_ERROR(CudnnStatus(
        functions, functions.cudnnSetConvolutionGroupCount(convolution, count * step.groups),
        "cudnnSetConvolutionGroupCount"));
    // Single precision throughout: residuals of states are small differences.
    return CudnnStatus(functions,
                       functions.cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH),
                       "cudnnSetConvolutionMathType");
  }
};

StepKernels::StepKernels(const DeviceTarget& target, const StepShape& shape, int batch,
                         size_t workspace_limit)
    : target_(target), shape_(shape), batch_(batch), workspace_limit_(workspace_limit) {}

Result<std::unique_ptr<StepKernels>> StepKernels::Make(const DeviceTarget& target,
                                                       const StepShape& shape, int batch,
                                                       size_t workspace_limit) {
  const cudnn::Functions& functions = *target.functions;
  if (!functions.HasActivations() || !functions.HasOpTensor() ||
      functions.cudnnAddTensor == nullptr) {
    return Status::Error(
        "this cuDNN lacks cudnnActivationForward, cudnnOpTensor or cudnnAddTensor");
  }
  const cuda::ContextScope scope(*target.driver, target.context);
  std::unique_ptr<StepKernels> kernels(new StepKernels(target, shape, batch, workspace_limit));
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(functions, functions.cudnnCreateActivationDescriptor(&kernels->activation_),
                  "cudnnCreateActivationDescriptor"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions,
      functions.cudnnSetActivationDescriptor(
          kernels->activation_, shape.is_tanh ? CUDNN_ACTIVATION_TANH : CUDNN_ACTIVATION_RELU,
          CUDNN_PROPAGATE_NAN, 0),
      "cudnnSetActivationDescriptor"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions,
                                     functions.cudnnCreateOpTensorDescriptor(&kernels->add_),
                                     "cudnnCreateOpTensorDescriptor"));
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(functions,
                  functions.cudnnSetOpTensorDescriptor(kernels->add_, CUDNN_OP_TENSOR_ADD,
                                                       CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN),
                  "cudnnSetOpTensorDescriptor"));
  return kernels;
}

StepKernels::~StepKernels() {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  if (activation_ != nullptr) target_.functions->cudnnDestroyActivationDescriptor(activation_);
  if (add_ != nullptr) target_.functions->cudnnDestroyOpTensorDescriptor(add_);
  for (const auto& [key, tensor] : views_) {
    if (tensor != nullptr) target_.functions->cudnnDestroyTensorDescriptor(tensor);
  }
}

Status StepKernels::Prepare(int count, int x_distance, int out_distance) {
  auto& slot = prepared_[{count, x_distance, out_distance}];
  if (slot) return Status::Ok();
  const cuda::ContextScope scope(*target_.driver, target_.context);
  const cudnn::Functions& functions = *target_.functions;
  auto made = std::make_unique<Prepared>(functions);
  const int channels = count * shape_.channels;
  const int64_t state = shape_.StateSize();
  UCUDNN_RETURN_IF_ERROR(made->MakeTensor(made->x, batch_, channels, shape_, x_distance * state));
  UCUDNN_RETURN_IF_ERROR(
      made->MakeTensor(made->out, batch_, channels, shape_, out_distance * state));
  UCUDNN_RETURN_IF_ERROR(made->MakeTensor(made->value, batch_, channels, shape_, count * state));
  StepShape point = shape_;
  point.rows = point.columns = 1;
  UCUDNN_RETURN_IF_ERROR(made->MakeTensor(made->bias, 1, channels, point, channels));
  UCUDNN_RETURN_IF_ERROR(made->MakeConvolution(shape_, count));
  UCUDNN_RETURN_IF_ERROR(Choose(*made));
  workspace_ = std::max(workspace_, made->workspace);
  slot = std::move(made);
  return Status::Ok();
}

Status StepKernels::Choose(Prepared& prepared) const {
  const cudnn::Functions& functions = *target_.functions;
  cudnnHandle_t handle = nullptr;
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions, functions.cudnnCreate(&handle), "cudnnCreate"));
  std::vector<cudnn::AlgorithmPerformance> ranking;
  const cudnnStatus_t status =
      RankAlgorithms(functions, Operation::kForward, handle,
                     {prepared.x, prepared.weights, prepared.value, prepared.convolution}, ranking);
  functions.cudnnDestroy(handle);
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions, status, "cudnnGetConvolutionForwardAlgorithm_v7"));
  for (const cudnn::AlgorithmPerformance& ranked : ranking) {
    // The same arithmetic as asked for: a solve compares what different calls computed.
    if (ranked.status != CUDNN_STATUS_SUCCESS || ranked.workspace_bytes > workspace_limit_ ||
        ranked.math != CUDNN_FMA_MATH) {
      continue;
    }
    prepared.algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(ranked.algorithm);
    prepared.workspace = ranked.workspace_bytes;
    return Status::Ok();
  }
  return Status::Error("no algorithm of cuDNN serves a step of " + std::to_string(shape_.channels) +
                       " channels within " + std::to_string(workspace_limit_) +
                       " bytes of workspace");
}

const StepKernels::Prepared* StepKernels::Find(const Operands& operands) const {
  const auto found = prepared_.find({operands.count, operands.x_distance, operands.out_distance});
  return found != prepared_.end() ? found->second.get() : nullptr;
}

Status StepKernels::Transform(DeviceLane& lane, const Prepared& prepared,
                              const Operands& operands) {
  const cudnn::Functions& functions = *target_.functions;
  ++convolution_calls_;
  float* const value = lane.room();
  if (!shape_.is_tanh) {
    return CudnnStatus(functions,
                       functions.cudnnConvolutionBiasActivationForward(
                           lane.handle(), &kOne, prepared.x, operands.x, prepared.weights,
                           operands.weights, prepared.convolution, prepared.algorithm,
                           lane.workspace(), prepared.workspace, &kZero, prepared.value, value,
                           prepared.bias, operands.bias, activation_, prepared.value, value),
                       "cudnnConvolutionBiasActivationForward");
  }
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions,
      functions.cudnnConvolutionForward(lane.handle(), &kOne, prepared.x, operands.x,
                                        prepared.weights, operands.weights, prepared.convolution,
                                        prepared.algorithm, lane.workspace(), prepared.workspace,
                                        &kZero, prepared.value, value),
      "cudnnConvolutionForward"));
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(functions,
                  functions.cudnnAddTensor(lane.handle(), &kOne, prepared.bias, operands.bias,
                                           &kOne, prepared.value, value),
                  "cudnnAddTensor"));
  return CudnnStatus(
      functions,
      functions.cudnnActivationForward(lane.handle(), activation_, &kOne, prepared.value, value,
                                       &kZero, prepared.value, value),
      "cudnnActivationForward");
}

Status StepKernels::Step(DeviceLane& lane, const Operands& operands) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  const Prepared* const prepared = Find(operands);
  if (prepared == nullptr) return Status::Error("a step that was not prepared");
  UCUDNN_RETURN_IF_ERROR(Transform(lane, *prepared, operands));
  const cudnn::Functions& functions = *target_.functions;
  return CudnnStatus(
      functions,
      functions.cudnnOpTensor(lane.handle(), add_, &kOne, prepared->x, operands.x, &operands.factor,
                              prepared->value, lane.room(), &kZero, prepared->out, operands.out),
      "cudnnOpTensor");
}

Status StepKernels::AddTransformed(DeviceLane& lane, const Operands& operands) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  const Prepared* const prepared = Find(operands);
  if (prepared == nullptr) return Status::Error("a step that was not prepared");
  UCUDNN_RETURN_IF_ERROR(Transform(lane, *prepared, operands));
  const cudnn::Functions& functions = *target_.functions;
  return CudnnStatus(functions,
                     functions.cudnnAddTensor(lane.handle(), &operands.factor, prepared->value,
                                              lane.room(), &kOne, prepared->out, operands.out),
                     "cudnnAddTensor");
}

Result<cudnnTensorDescriptor_t> StepKernels::TensorOf(const StatesView& view) {
  MutexLock lock(mutex_);
  cudnnTensorDescriptor_t& tensor = views_[{view.count, view.image_distance, view.distance}];
  if (tensor != nullptr) return tensor;
  const cudnn::Functions& functions = *target_.functions;
  const auto size = static_cast<int>(shape_.StateSize());
  // A state that is read several times has one place, as cudnnAddTensor repeats it.
  const int places = view.distance == 0 ? 1 : view.count;
  const int dims[] = {batch_, places, 1, size};
  const int distance = view.distance == 0 ? 1 : static_cast<int>(view.distance);
  const int strides[] = {static_cast<int>(view.image_distance) * size, distance * size, size, 1};
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions, functions.cudnnCreateTensorDescriptor(&tensor),
                                     "cudnnCreateTensorDescriptor"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions, functions.cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, dims, strides),
      "cudnnSetTensorNdDescriptor"));
  return tensor;
}

Status StepKernels::Combine(DeviceLane& lane, float a, const StatesView& x, float b,
                            const StatesView& y) {
  const cuda::ContextScope scope(*target_.driver, target_.context);
  const cudnn::Functions& functions = *target_.functions;
  UCUDNN_ASSIGN_OR_RETURN(const cudnnTensorDescriptor_t from, TensorOf(x));
  UCUDNN_ASSIGN_OR_RETURN(const cudnnTensorDescriptor_t to, TensorOf(y));
  return CudnnStatus(functions,
                     functions.cudnnAddTensor(lane.handle(), &a, from, x.data, &b, to, y.data),
                     "cudnnAddTensor");
}

}  // namespace ucudnn::multigrid
