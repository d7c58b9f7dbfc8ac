// Tests that the functions of layers refuse arguments with the real library's status.
//
// The real library cannot make a handle without a GPU, but it looks at the other arguments first:
// given a handle of zeros, in a process of its own, it says what is wrong with them. Only refusals
// are compared. Apart from what a case is about, its arguments are right.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/unit/host/cudnn/library_pair.h"

namespace {

constexpr auto kF = CUDNN_DATA_FLOAT;
constexpr auto kH = CUDNN_DATA_HALF;
constexpr auto kD = CUDNN_DATA_DOUBLE;
constexpr auto kNoMode = static_cast<cudnnBatchNormMode_t>(3);
constexpr auto kNoOps = static_cast<cudnnBatchNormOps_t>(3);

// The descriptors and pointers of a good call, made by `library`; cases replace some of them.
struct Arguments {
  explicit Arguments(const Library& library) : l(library) {
    pooling = Pooling();
    l[CUDNN(SetPooling2dDescriptor)](pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 3, 3, 1,
                                     1, 2, 2);
    l[CUDNN(CreateActivationDescriptor)](&activation);
    owned_.push_back(
        [this, created = activation] { l[CUDNN(DestroyActivationDescriptor)](created); });
    l[CUDNN(SetActivationDescriptor)](activation, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN,
                                      0);
    op = Operation(kF);
    for (auto* tensor : {&x, &dx, &b, &a}) *tensor = Tensor(kF, {2, 3, 7, 7});
    for (auto* tensor : {&y, &dy}) *tensor = Tensor(kF, {2, 3, 4, 4});
    parameters = Tensor(kF, {1, 3, 1, 1});
  }

  Arguments(const Arguments&) = delete;
  ~Arguments() {
    for (const auto& destroy : owned_) destroy();
  }

  cudnnTensorDescriptor_t Tensor(cudnnDataType_t type, std::vector<int> dims,
                                 cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW) {
    const cudnnTensorDescriptor_t tensor = Unset();
    EXPECT_EQ(l[CUDNN(SetTensorNdDescriptorEx)](tensor, format, type, static_cast<int>(dims.size()),
                                                dims.data()),
              CUDNN_STATUS_SUCCESS);
    return tensor;
  }
  cudnnTensorDescriptor_t Strided(std::vector<int> dims, std::vector<int> strides) {
    const cudnnTensorDescriptor_t tensor = Unset();
    EXPECT_EQ(l[CUDNN(SetTensorNdDescriptor)](tensor, kF, static_cast<int>(dims.size()),
                                              dims.data(), strides.data()),
              CUDNN_STATUS_SUCCESS);
    return tensor;
  }
  cudnnTensorDescriptor_t Unset() {
    cudnnTensorDescriptor_t tensor = nullptr;
    l[CUDNN(CreateTensorDescriptor)](&tensor);
    owned_.push_back([this, tensor] { l[CUDNN(DestroyTensorDescriptor)](tensor); });
    return tensor;
  }
  cudnnOpTensorDescriptor_t Operation(cudnnDataType_t compute) {
    cudnnOpTensorDescriptor_t created = nullptr;
    l[CUDNN(CreateOpTensorDescriptor)](&created);
    owned_.push_back([this, created] { l[CUDNN(DestroyOpTensorDescriptor)](created); });
    l[CUDNN(SetOpTensorDescriptor)](created, CUDNN_OP_TENSOR_ADD, compute, CUDNN_NOT_PROPAGATE_NAN);
    return created;
  }

  cudnnPoolingDescriptor_t Pooling() {
    cudnnPoolingDescriptor_t created = nullptr;
    l[CUDNN(CreatePoolingDescriptor)](&created);
    owned_.push_back([this, created] { l[CUDNN(DestroyPoolingDescriptor)](created); });
    return created;
  }

  cudnnStatus_t PoolForward() {
    return l[CUDNN(PoolingForward)](handle, pooling, alpha, x, x_data, beta, y, y_data);
  }
  cudnnStatus_t PoolBackward() {
    return l[CUDNN(PoolingBackward)](handle, pooling, alpha, y, y_data, dy, dy_data, x, x_data,
                                     beta, dx, dx_data);
  }
  cudnnStatus_t SoftmaxForward() {
    return l[CUDNN(SoftmaxForward)](handle, softmax, mode, alpha, x, x_data, beta, dx, y_data);
  }
  cudnnStatus_t SoftmaxBackward() {
    return l[CUDNN(SoftmaxBackward)](handle, softmax, mode, alpha, y, y_data, dy, dy_data, beta, dx,
                                     dx_data);
  }
  cudnnStatus_t Operate() {
    return l[CUDNN(OpTensor)](handle, op, alpha, a, a_data, alpha, b, b_data, beta, x, x_data);
  }
  cudnnStatus_t Train() {
    return l[CUDNN(BatchNormalizationForwardTraining)](handle, batch_mode, alpha, beta, x, x_data,
                                                       dx, y_data, parameters, scale, scale, 1,
                                                       mean, mean, epsilon, mean, inverse);
  }
  cudnnStatus_t Infer() {
    return l[CUDNN(BatchNormalizationForwardInference)](handle, batch_mode, alpha, beta, x, x_data,
                                                        dx, y_data, parameters, scale, scale, mean,
                                                        inverse, epsilon);
  }
  cudnnStatus_t Unlearn() {
    return l[CUDNN(BatchNormalizationBackward)](handle, batch_mode, alpha, beta, alpha, beta, x,
                                                x_data, a, dy_data, dx, dx_data, parameters, scale,
                                                y_data, y_data, epsilon, mean, inverse);
  }
  cudnnStatus_t TrainEx() {
    return l[CUDNN(BatchNormalizationForwardTrainingEx)](
        handle, batch_mode, batch_ops, alpha, beta, x, x_data, nullptr, nullptr, dx, y_data,
        parameters, scale, scale, 1, mean, mean, epsilon, mean, inverse, behind, nullptr, 0,
        nullptr, 0);
  }
  cudnnStatus_t UnlearnEx() {
    return l[CUDNN(BatchNormalizationBackwardEx)](
        handle, batch_mode, batch_ops, alpha, beta, alpha, beta, x, x_data, nullptr, nullptr, a,
        dy_data, nullptr, nullptr, dx, dx_data, parameters, scale, nullptr, y_data, y_data, epsilon,
        mean, inverse, behind, nullptr, 0, nullptr, 0);
  }
  cudnnStatus_t TrainExWorkspace() {
    return l[CUDNN(GetBatchNormalizationForwardTrainingExWorkspaceSize)](
        handle, batch_mode, batch_ops, x, nullptr, dx, parameters, behind, size);
  }
  cudnnStatus_t UnlearnExWorkspace() {
    return l[CUDNN(GetBatchNormalizationBackwardExWorkspaceSize)](
        handle, batch_mode, batch_ops, x, nullptr, a, nullptr, dx, parameters, behind, size);
  }
  cudnnStatus_t Reserve() {
    return l[CUDNN(GetBatchNormalizationTrainingExReserveSpaceSize)](handle, batch_mode, batch_ops,
                                                                     behind, x, size);
  }
  cudnnStatus_t Add() { return l[CUDNN(AddTensor)](handle, alpha, a, a_data, beta, x, x_data); }
  cudnnStatus_t Bias() {
    return l[CUDNN(ConvolutionBackwardBias)](handle, alpha, x, x_data, beta, parameters, y_data);
  }
  cudnnStatus_t ActivateForward() {
    return l[CUDNN(ActivationForward)](handle, activation, alpha, x, x_data, beta, dx, y_data);
  }
  cudnnStatus_t ActivateBackward() {
    return l[CUDNN(ActivationBackward)](handle, activation, alpha, a, y_data, b, dy_data, x, x_data,
                                        beta, dx, dx_data);
  }

  const Library& l;
  cudnnHandle_t handle = nullptr;
  cudnnPoolingDescriptor_t pooling = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;
  cudnnOpTensorDescriptor_t op = nullptr;
  cudnnTensorDescriptor_t x, dx, y, dy, a, b, parameters;
  cudnnSoftmaxAlgorithm_t softmax = CUDNN_SOFTMAX_ACCURATE;
  cudnnSoftmaxMode_t mode = CUDNN_SOFTMAX_MODE_CHANNEL;
  cudnnBatchNormMode_t batch_mode = CUDNN_BATCHNORM_SPATIAL;
  cudnnBatchNormOps_t batch_ops = CUDNN_BATCHNORM_OPS_BN;
  cudnnActivationDescriptor_t behind = nullptr;
  size_t bytes = 0;
  size_t* size = &bytes;
  double epsilon = 1e-5;
  double one = 1, memory[16] = {};
  const void* alpha = &one;
  const void* beta = &one;
  void* x_data = memory;
  void* dx_data = memory + 1;
  void* y_data = memory + 2;
  void* dy_data = memory + 3;
  void* a_data = memory + 4;
  void* b_data = memory + 5;
  void* scale = memory + 6;
  void* mean = memory + 7;
  void* inverse = memory + 8;

 private:
  std::vector<std::function<void()>> owned_;
};

using Function = cudnnStatus_t (Arguments::*)();

struct Refused {
  const char* what;
  Function function;
  std::function<void(Arguments&)> spoil;
};

#define CASE(function, statement)                                                     \
  {                                                                                   \
#function ": " #statement, &Arguments::function, [](Arguments & g) { statement; } \
  }

const std::vector<Refused> kRefused = {
    CASE(PoolForward, g.handle = nullptr),
    CASE(PoolForward, g.pooling = nullptr),
    CASE(PoolForward, g.x = nullptr),
    CASE(PoolForward, g.y = nullptr),
    CASE(PoolForward, g.x_data = nullptr),
    CASE(PoolForward, g.y_data = nullptr),
    CASE(PoolForward, g.alpha = nullptr),
    CASE(PoolForward, g.beta = nullptr),
    CASE(PoolForward, g.y = g.Tensor(kH, {2, 3, 4, 4})),
    CASE(PoolForward, g.y = g.Tensor(kF, {1, 3, 4, 4})),
    CASE(PoolForward, g.y = g.Tensor(kF, {2, 4, 4, 4})),
    CASE(PoolForward, g.y = g.Tensor(kF, {2, 3, 4, 4, 4})),
    CASE(PoolForward, g.x = g.Tensor(kF, {2, 3, 7})),
    CASE(PoolForward, g.x = g.Unset()),
    CASE(PoolForward, g.pooling = g.Pooling()),
    CASE(PoolBackward, g.y_data = nullptr),
    CASE(PoolBackward, g.dy_data = nullptr),
    CASE(PoolBackward, g.dx_data = nullptr),
    CASE(PoolBackward, g.dy = g.Tensor(kF, {2, 3, 4, 5})),
    CASE(PoolBackward, g.dy = g.Tensor(kH, {2, 3, 4, 4})),
    CASE(PoolBackward, g.dy = g.Tensor(kF, {2, 3, 4, 4}, CUDNN_TENSOR_NHWC)),
    CASE(PoolBackward, g.dx = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(PoolBackward, g.dx = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(PoolBackward, g.dx = g.Tensor(kF, {2, 3, 7, 7}, CUDNN_TENSOR_NHWC)),
    CASE(SoftmaxForward, g.x = nullptr),
    CASE(SoftmaxForward, g.x_data = nullptr),
    CASE(SoftmaxForward, g.alpha = nullptr),
    CASE(SoftmaxForward, g.softmax = static_cast<cudnnSoftmaxAlgorithm_t>(3)),
    CASE(SoftmaxForward, g.softmax = static_cast<cudnnSoftmaxAlgorithm_t>(-1)),
    CASE(SoftmaxForward, g.mode = static_cast<cudnnSoftmaxMode_t>(2)),
    CASE(SoftmaxForward, g.dx = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(SoftmaxForward, g.dx = g.Tensor(kD, {2, 3, 7, 7})),
    CASE(SoftmaxForward, g.x = g.dx = g.Tensor(kF, {2, 3})),
    CASE(SoftmaxForward, g.x = g.dx = g.Unset()),
    CASE(SoftmaxForward, g.x = g.dx = g.Tensor(CUDNN_DATA_INT32, {2, 3, 7, 7})),
    CASE(SoftmaxBackward, g.dx = g.Tensor(kF, {2, 3, 4, 4}); g.dy = g.Tensor(kF, {2, 3, 4, 5})),
    CASE(SoftmaxBackward, g.dx = g.Tensor(kF, {2, 3, 4, 4});
         g.dy = g.Tensor(kF, {2, 3, 4, 4}, CUDNN_TENSOR_NHWC)),
    CASE(SoftmaxBackward, g.dx = g.Tensor(kF, {2, 3, 4, 5})),
    CASE(SoftmaxBackward, g.dx = g.Tensor(kH, {2, 3, 4, 4})),
    CASE(SoftmaxBackward, g.dx = g.Tensor(kF, {2, 3, 4, 4}); g.dy_data = nullptr),
    CASE(Operate, g.handle = nullptr),
    CASE(Operate, g.b = nullptr),
    CASE(Operate, g.b_data = nullptr),
    CASE(Operate, g.alpha = nullptr),
    CASE(Operate, g.beta = nullptr),
    CASE(Operate, g.b = g.Tensor(kF, {1, 2, 1, 1})),
    CASE(Operate, g.b = g.Tensor(kF, {1, 3, 1})),
    CASE(Operate, g.a = g.Tensor(kF, {1, 3, 1, 1})),
    CASE(Operate, g.a = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(Operate, g.a = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(Operate, g.b = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(Operate, g.op = g.Operation(kH)),
    CASE(Operate, g.op = g.Operation(kD)),
    CASE(Operate, g.a = g.b = g.x = g.Tensor(kD, {2, 3, 7, 7})),
    CASE(Operate, g.a = g.b = g.x = g.Tensor(kF, {2, 3, 7})),
    CASE(Operate, g.a = g.b = g.x = g.Tensor(kF, {2, 3, 1, 1, 7, 7})),
    CASE(Operate, g.a = g.b = g.x = g.Unset()),
    CASE(Operate, g.b_data = g.x_data),
    CASE(Train, g.handle = nullptr),
    CASE(Train, g.parameters = nullptr),
    CASE(Train, g.scale = nullptr),
    CASE(Train, g.x_data = nullptr),
    CASE(Train, g.alpha = nullptr),
    CASE(Train, g.inverse = nullptr),
    CASE(Train, g.batch_mode = static_cast<cudnnBatchNormMode_t>(-1)),
    CASE(Train, g.batch_mode = static_cast<cudnnBatchNormMode_t>(3)),
    CASE(Train, g.batch_mode = CUDNN_BATCHNORM_PER_ACTIVATION),
    CASE(Train, g.parameters = g.Tensor(kF, {1, 3, 7, 7})),
    CASE(Train, g.parameters = g.Tensor(kF, {1, 4, 1, 1})),
    CASE(Train, g.parameters = g.Tensor(kH, {1, 3, 1, 1})),
    CASE(Train, g.parameters = g.Tensor(kD, {1, 3, 1, 1})),
    CASE(Train, g.parameters = g.Tensor(kF, {1, 3, 1})),
    CASE(Train, g.parameters = g.Strided({1, 3, 1, 1}, {6, 2, 1, 1})),
    CASE(Train, g.dx = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(Train, g.dx = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(Train, g.x = g.dx = g.Tensor(kF, {2, 3, 7}); g.parameters = g.Tensor(kF, {1, 3, 1})),
    CASE(Train, g.x = g.dx = g.Unset()),
    CASE(Train, g.epsilon = -1e-5),
    CASE(Infer, g.mean = nullptr),
    CASE(Infer, g.inverse = nullptr),
    CASE(Infer, g.epsilon = -1e-5),
    CASE(Infer, g.batch_mode = static_cast<cudnnBatchNormMode_t>(7)),
    CASE(Infer, g.parameters = g.Tensor(kF, {1, 3, 7, 7})),
    CASE(Infer, g.dx = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(Unlearn, g.mean = nullptr),
    CASE(Unlearn, g.y_data = nullptr),
    CASE(Unlearn, g.epsilon = -1e-5),
    CASE(Unlearn, g.batch_mode = static_cast<cudnnBatchNormMode_t>(9)),
    CASE(Unlearn, g.a = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(Unlearn, g.a = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(Unlearn, g.dx = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(Unlearn, g.parameters = g.Tensor(kF, {1, 3, 7, 7})),
    CASE(TrainEx, g.handle = nullptr),
    CASE(TrainEx, g.x = nullptr),
    CASE(TrainEx, g.parameters = nullptr),
    CASE(TrainEx, g.x_data = nullptr),
    CASE(TrainEx, g.scale = nullptr),
    CASE(TrainEx, g.beta = nullptr),
    CASE(TrainEx, g.inverse = nullptr),
    CASE(TrainEx, g.epsilon = -1e-5),
    CASE(TrainEx, g.batch_mode = kNoMode),
    CASE(TrainEx, g.batch_mode = CUDNN_BATCHNORM_PER_ACTIVATION),
    CASE(TrainEx, g.batch_ops = kNoOps),
    CASE(TrainEx, g.batch_ops = CUDNN_BATCHNORM_OPS_BN_ACTIVATION),
    CASE(TrainEx, g.parameters = g.Tensor(kF, {1, 4, 1, 1})),
    CASE(TrainEx, g.parameters = g.Tensor(kD, {1, 3, 1, 1})),
    CASE(TrainEx, g.dx = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(TrainEx, g.dx = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(TrainEx, g.x = g.dx = g.Unset()),
    CASE(UnlearnEx, g.x_data = nullptr),
    CASE(UnlearnEx, g.y_data = nullptr),
    CASE(UnlearnEx, g.beta = nullptr),
    CASE(UnlearnEx, g.mean = nullptr),
    CASE(UnlearnEx, g.epsilon = -1e-5),
    CASE(UnlearnEx, g.batch_mode = kNoMode),
    CASE(UnlearnEx, g.batch_ops = kNoOps),
    CASE(UnlearnEx, g.batch_ops = CUDNN_BATCHNORM_OPS_BN_ACTIVATION),
    CASE(UnlearnEx, g.parameters = g.Tensor(kF, {1, 4, 1, 1})),
    CASE(UnlearnEx, g.a = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(UnlearnEx, g.dx = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(TrainExWorkspace, g.handle = nullptr),
    CASE(TrainExWorkspace, g.x = nullptr),
    CASE(TrainExWorkspace, g.dx = nullptr),
    CASE(TrainExWorkspace, g.parameters = nullptr),
    CASE(TrainExWorkspace, g.size = nullptr),
    CASE(TrainExWorkspace, g.batch_mode = kNoMode),
    CASE(TrainExWorkspace, g.batch_mode = CUDNN_BATCHNORM_PER_ACTIVATION),
    CASE(TrainExWorkspace, g.parameters = g.Tensor(kD, {1, 3, 1, 1})),
    CASE(TrainExWorkspace, g.dx = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(TrainExWorkspace, g.dx = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(TrainExWorkspace, g.x = g.dx = g.Unset()),
    CASE(TrainExWorkspace, g.x = g.dx = g.Tensor(CUDNN_DATA_INT8, {2, 3, 7, 7})),
    CASE(UnlearnExWorkspace, g.handle = nullptr),
    CASE(UnlearnExWorkspace, g.x = nullptr),
    CASE(UnlearnExWorkspace, g.a = nullptr),
    CASE(UnlearnExWorkspace, g.dx = nullptr),
    CASE(UnlearnExWorkspace, g.parameters = nullptr),
    CASE(UnlearnExWorkspace, g.size = nullptr),
    CASE(UnlearnExWorkspace, g.batch_mode = kNoMode),
    CASE(UnlearnExWorkspace, g.batch_ops = kNoOps),
    CASE(UnlearnExWorkspace, g.batch_ops = CUDNN_BATCHNORM_OPS_BN_ACTIVATION),
    CASE(UnlearnExWorkspace, g.a = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(UnlearnExWorkspace, g.dx = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(UnlearnExWorkspace, g.a = g.x = g.dx = g.Tensor(CUDNN_DATA_INT8, {2, 3, 7, 7})),
    CASE(Reserve, g.handle = nullptr),
    CASE(Reserve, g.x = nullptr),
    CASE(Reserve, g.size = nullptr),
    CASE(Reserve, g.batch_mode = kNoMode),
    CASE(Reserve, g.batch_ops = kNoOps),
    CASE(Reserve, g.batch_ops = CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION),
    CASE(Add, g.a = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(Add, g.a = g.Tensor(kF, {2, 3, 7, 6})),
    CASE(Add, g.a = g.Tensor(kF, {1, 3, 1})),
    CASE(Add, g.a = g.x = g.Tensor(kF, {2, 3, 1, 1, 7, 7})),
    CASE(Add, g.a_data = nullptr),
    CASE(Add, g.beta = nullptr),
    CASE(Bias, g.parameters = g.Tensor(kF, {1, 4, 1, 1})),
    CASE(Bias, g.parameters = g.Tensor(kH, {1, 3, 1, 1})),
    CASE(Bias, g.parameters = g.Tensor(kF, {1, 3, 7, 7})),
    CASE(Bias, g.parameters = g.Tensor(kF, {2, 3, 1, 1})),
    CASE(ActivateForward, g.dx = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(ActivateForward, g.dx = g.Tensor(kH, {2, 3, 7, 7})),
    CASE(ActivateForward, g.l[CUDNN(SetActivationDescriptor)](
                              g.activation, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0)),
    CASE(ActivateBackward, g.dx = g.Tensor(kF, {2, 3, 7, 8})),
    CASE(ActivateBackward, g.dx = g.Tensor(kH, {2, 3, 7, 7})),
};

constexpr int kCrashed = -1;

// The real library's status, from a process that may crash on the handle of zeros.
int RealStatus(const Library& library, const Refused& refused) {
  void* const shared =
      mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int* const status = static_cast<int*>(shared);
  *status = kCrashed;
  const pid_t child = fork();
  if (child == 0) {
    for (const int fault : {SIGFPE, SIGSEGV, SIGBUS}) signal(fault, SIG_DFL);
    static std::vector<char> zeros(size_t{1} << 20);
    Arguments arguments(library);
    arguments.handle = reinterpret_cast<cudnnHandle_t>(zeros.data());
    refused.spoil(arguments);
    *status = (arguments.*refused.function)();
    _exit(0);
  }
  int ended = 0;
  waitpid(child, &ended, 0);
  const int answer = *status;
  munmap(shared, sizeof(int));
  return answer;
}

using ArgumentConformance = LibraryPair;

TEST_F(ArgumentConformance, RefusalsAreTheRealLibrarys) {
  std::vector<int> real;
  for (const Refused& refused : kRefused) real.push_back(RealStatus(real_, refused));
  // The handle is made only now: forked children would lack its threads.
  cudnnHandle_t handle = nullptr;
  ASSERT_EQ(ours_[CUDNN(Create)](&handle), CUDNN_STATUS_SUCCESS);
  for (size_t i = 0; i < kRefused.size(); ++i) {
    SCOPED_TRACE(kRefused[i].what);
    EXPECT_TRUE(real[i] == CUDNN_STATUS_BAD_PARAM || real[i] == CUDNN_STATUS_NOT_SUPPORTED)
        << "the real library answers " << real[i];
    Arguments arguments(ours_);
    arguments.handle = handle;
    kRefused[i].spoil(arguments);
    EXPECT_EQ(static_cast<int>((arguments.*kRefused[i].function)()), real[i]);
  }
  ours_[CUDNN(Destroy)](handle);
}

}  // namespace
