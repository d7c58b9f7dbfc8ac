// Tests that the functions of layers refuse arguments with the real library's status.
//
// The real library cannot make a handle without a GPU, but it checks the other arguments first:
// called with a handle of zeros, in a process of its own, it returns what is wrong with them. Only
// refusals are compared. All arguments that a case does not spoil are right.
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

// Holds arguments with which cuDNN accepts every call below, once `handle` is set. `library` makes
// the descriptors. Each case spoils some of the arguments.
struct Arguments {
  explicit Arguments(const Library& library) : l(library) {
    pooling = Pooling();
    l[CUDNN(SetPooling2dDescriptor)](pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 3, 3, 1,
                                     1, 2, 2);
    activation = Make(CUDNN(CreateActivationDescriptor), CUDNN(DestroyActivationDescriptor));
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

  // Makes a descriptor that lives as long as these arguments.
  template <class Descriptor>
  Descriptor Make(CudnnFunction<cudnnStatus_t (*)(Descriptor*)> create,
                  CudnnFunction<cudnnStatus_t (*)(Descriptor)> destroy) {
    Descriptor created = nullptr;
    l[create](&created);
    owned_.push_back([this, destroy, created] { l[destroy](created); });
    return created;
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
    return Make(CUDNN(CreateTensorDescriptor), CUDNN(DestroyTensorDescriptor));
  }
  cudnnOpTensorDescriptor_t Operation(cudnnDataType_t compute) {
    const auto created = Make(CUDNN(CreateOpTensorDescriptor), CUDNN(DestroyOpTensorDescriptor));
    l[CUDNN(SetOpTensorDescriptor)](created, CUDNN_OP_TENSOR_ADD, compute, CUDNN_NOT_PROPAGATE_NAN);
    return created;
  }

  cudnnPoolingDescriptor_t Pooling() {
    return Make(CUDNN(CreatePoolingDescriptor), CUDNN(DestroyPoolingDescriptor));
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

// Spoils the arguments so that all of `calls` are refused.
struct Refused {
  const char* what;
  std::vector<Function> calls;
  std::function<void(Arguments&)> spoil;
};

using A = Arguments;
#define REFUSED(statement, ...)                                                    \
  {                                                                                \
#statement ": " #__VA_ARGS__, {__VA_ARGS__ }, [](Arguments & g) { statement; } \
  }

const std::vector<Refused> kRefused = {
    REFUSED(g.handle = nullptr, &A::PoolForward, &A::Operate, &A::Train, &A::TrainEx,
            &A::TrainExWorkspace, &A::UnlearnExWorkspace, &A::Reserve),
    REFUSED(g.pooling = nullptr, &A::PoolForward),
    REFUSED(g.x = nullptr, &A::PoolForward, &A::SoftmaxForward, &A::TrainEx, &A::TrainExWorkspace,
            &A::UnlearnExWorkspace, &A::Reserve),
    REFUSED(g.y = nullptr, &A::PoolForward),
    REFUSED(g.x_data = nullptr, &A::PoolForward, &A::SoftmaxForward, &A::Train, &A::TrainEx,
            &A::UnlearnEx),
    REFUSED(g.y_data = nullptr, &A::PoolForward, &A::PoolBackward, &A::Unlearn, &A::UnlearnEx),
    REFUSED(g.alpha = nullptr, &A::PoolForward, &A::SoftmaxForward, &A::Operate, &A::Train),
    REFUSED(g.beta = nullptr, &A::PoolForward, &A::Operate, &A::TrainEx, &A::UnlearnEx, &A::Add),
    REFUSED(g.y = g.Tensor(kH, {2, 3, 4, 4}), &A::PoolForward),
    REFUSED(g.y = g.Tensor(kF, {1, 3, 4, 4}), &A::PoolForward),
    REFUSED(g.y = g.Tensor(kF, {2, 4, 4, 4}), &A::PoolForward),
    REFUSED(g.y = g.Tensor(kF, {2, 3, 4, 4, 4}), &A::PoolForward),
    REFUSED(g.x = g.Tensor(kF, {2, 3, 7}), &A::PoolForward),
    REFUSED(g.x = g.Unset(), &A::PoolForward),
    REFUSED(g.pooling = g.Pooling(), &A::PoolForward),
    REFUSED(g.dy_data = nullptr, &A::PoolBackward),
    REFUSED(g.dx_data = nullptr, &A::PoolBackward),
    REFUSED(g.dy = g.Tensor(kF, {2, 3, 4, 5}), &A::PoolBackward),
    REFUSED(g.dy = g.Tensor(kH, {2, 3, 4, 4}), &A::PoolBackward),
    REFUSED(g.dy = g.Tensor(kF, {2, 3, 4, 4}, CUDNN_TENSOR_NHWC), &A::PoolBackward),
    REFUSED(g.dx = g.Tensor(kF, {2, 3, 7, 8}), &A::PoolBackward, &A::SoftmaxForward, &A::Train,
            &A::Infer, &A::TrainEx, &A::TrainExWorkspace, &A::ActivateForward,
            &A::ActivateBackward),
    REFUSED(g.dx = g.Tensor(kH, {2, 3, 7, 7}), &A::PoolBackward, &A::Train, &A::Unlearn,
            &A::TrainEx, &A::UnlearnEx, &A::TrainExWorkspace, &A::UnlearnExWorkspace,
            &A::ActivateForward, &A::ActivateBackward),
    REFUSED(g.dx = g.Tensor(kF, {2, 3, 7, 7}, CUDNN_TENSOR_NHWC), &A::PoolBackward),
    REFUSED(g.softmax = static_cast<cudnnSoftmaxAlgorithm_t>(3), &A::SoftmaxForward),
    REFUSED(g.softmax = static_cast<cudnnSoftmaxAlgorithm_t>(-1), &A::SoftmaxForward),
    REFUSED(g.mode = static_cast<cudnnSoftmaxMode_t>(2), &A::SoftmaxForward),
    REFUSED(g.dx = g.Tensor(kD, {2, 3, 7, 7}), &A::SoftmaxForward),
    REFUSED(g.x = g.dx = g.Tensor(kF, {2, 3}), &A::SoftmaxForward),
    REFUSED(g.x = g.dx = g.Unset(), &A::SoftmaxForward, &A::Train, &A::TrainEx,
            &A::TrainExWorkspace),
    REFUSED(g.x = g.dx = g.Tensor(CUDNN_DATA_INT32, {2, 3, 7, 7}), &A::SoftmaxForward),
    REFUSED(g.dx = g.Tensor(kF, {2, 3, 4, 4});
            g.dy = g.Tensor(kF, {2, 3, 4, 5}), &A::SoftmaxBackward),
    REFUSED(g.dx = g.Tensor(kF, {2, 3, 4, 4});
            g.dy = g.Tensor(kF, {2, 3, 4, 4}, CUDNN_TENSOR_NHWC), &A::SoftmaxBackward),
    REFUSED(g.dx = g.Tensor(kF, {2, 3, 4, 5}), &A::SoftmaxBackward),
    REFUSED(g.dx = g.Tensor(kH, {2, 3, 4, 4}), &A::SoftmaxBackward),
    REFUSED(g.dx = g.Tensor(kF, {2, 3, 4, 4}); g.dy_data = nullptr, &A::SoftmaxBackward),
    REFUSED(g.b = nullptr, &A::Operate),
    REFUSED(g.b_data = nullptr, &A::Operate),
    REFUSED(g.b = g.Tensor(kF, {1, 2, 1, 1}), &A::Operate),
    REFUSED(g.b = g.Tensor(kF, {1, 3, 1}), &A::Operate),
    REFUSED(g.a = g.Tensor(kF, {1, 3, 1, 1}), &A::Operate),
    REFUSED(g.a = g.Tensor(kF, {2, 3, 7, 8}), &A::Operate, &A::Unlearn, &A::UnlearnEx,
            &A::UnlearnExWorkspace),
    REFUSED(g.a = g.Tensor(kH, {2, 3, 7, 7}), &A::Operate, &A::Unlearn, &A::Add),
    REFUSED(g.b = g.Tensor(kH, {2, 3, 7, 7}), &A::Operate),
    REFUSED(g.op = g.Operation(kH), &A::Operate),
    REFUSED(g.op = g.Operation(kD), &A::Operate),
    REFUSED(g.a = g.b = g.x = g.Tensor(kD, {2, 3, 7, 7}), &A::Operate),
    REFUSED(g.a = g.b = g.x = g.Tensor(kF, {2, 3, 7}), &A::Operate),
    REFUSED(g.a = g.b = g.x = g.Tensor(kF, {2, 3, 1, 1, 7, 7}), &A::Operate),
    REFUSED(g.a = g.b = g.x = g.Unset(), &A::Operate),
    REFUSED(g.b_data = g.x_data, &A::Operate),
    REFUSED(g.parameters = nullptr, &A::Train, &A::TrainEx, &A::TrainExWorkspace,
            &A::UnlearnExWorkspace),
    REFUSED(g.scale = nullptr, &A::Train, &A::TrainEx),
    REFUSED(g.inverse = nullptr, &A::Train, &A::Infer, &A::TrainEx),
    REFUSED(g.batch_mode = static_cast<cudnnBatchNormMode_t>(-1), &A::Train),
    REFUSED(g.batch_mode = kNoMode, &A::Train, &A::TrainEx, &A::UnlearnEx, &A::TrainExWorkspace,
            &A::UnlearnExWorkspace, &A::Reserve),
    REFUSED(g.batch_mode = CUDNN_BATCHNORM_PER_ACTIVATION, &A::Train, &A::TrainEx,
            &A::TrainExWorkspace),
    REFUSED(g.parameters = g.Tensor(kF, {1, 3, 7, 7}), &A::Train, &A::Infer, &A::Unlearn, &A::Bias),
    REFUSED(g.parameters = g.Tensor(kF, {1, 4, 1, 1}), &A::Train, &A::TrainEx, &A::UnlearnEx,
            &A::Bias),
    REFUSED(g.parameters = g.Tensor(kH, {1, 3, 1, 1}), &A::Train, &A::Bias),
    REFUSED(g.parameters = g.Tensor(kD, {1, 3, 1, 1}), &A::Train, &A::TrainEx,
            &A::TrainExWorkspace),
    REFUSED(g.parameters = g.Tensor(kF, {1, 3, 1}), &A::Train),
    REFUSED(g.parameters = g.Strided({1, 3, 1, 1}, {6, 2, 1, 1}), &A::Train),
    REFUSED(g.x = g.dx = g.Tensor(kF, {2, 3, 7});
            g.parameters = g.Tensor(kF, {1, 3, 1}), &A::Train),
    REFUSED(g.epsilon = -1e-5, &A::Train, &A::Infer, &A::Unlearn, &A::TrainEx, &A::UnlearnEx),
    REFUSED(g.mean = nullptr, &A::Infer, &A::Unlearn, &A::UnlearnEx),
    REFUSED(g.batch_mode = static_cast<cudnnBatchNormMode_t>(7), &A::Infer),
    REFUSED(g.batch_mode = static_cast<cudnnBatchNormMode_t>(9), &A::Unlearn),
    REFUSED(g.batch_ops = kNoOps, &A::TrainEx, &A::UnlearnEx, &A::UnlearnExWorkspace, &A::Reserve),
    REFUSED(g.batch_ops = CUDNN_BATCHNORM_OPS_BN_ACTIVATION, &A::TrainEx, &A::UnlearnEx,
            &A::UnlearnExWorkspace),
    REFUSED(g.dx = nullptr, &A::TrainExWorkspace, &A::UnlearnExWorkspace),
    REFUSED(g.size = nullptr, &A::TrainExWorkspace, &A::UnlearnExWorkspace, &A::Reserve),
    REFUSED(g.x = g.dx = g.Tensor(CUDNN_DATA_INT8, {2, 3, 7, 7}), &A::TrainExWorkspace),
    REFUSED(g.a = nullptr, &A::UnlearnExWorkspace),
    REFUSED(g.a = g.x = g.dx = g.Tensor(CUDNN_DATA_INT8, {2, 3, 7, 7}), &A::UnlearnExWorkspace),
    REFUSED(g.batch_ops = CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, &A::Reserve),
    REFUSED(g.a = g.Tensor(kF, {2, 3, 7, 6}), &A::Add),
    REFUSED(g.a = g.Tensor(kF, {1, 3, 1}), &A::Add),
    REFUSED(g.a = g.x = g.Tensor(kF, {2, 3, 1, 1, 7, 7}), &A::Add),
    REFUSED(g.a_data = nullptr, &A::Add),
    REFUSED(g.parameters = g.Tensor(kF, {2, 3, 1, 1}), &A::Bias),
    REFUSED(g.l[CUDNN(SetActivationDescriptor)](g.activation, CUDNN_ACTIVATION_IDENTITY,
                                                CUDNN_NOT_PROPAGATE_NAN, 0),
            &A::ActivateForward),
};

constexpr int kCrashed = -1;

// Returns the real library's status. The call is made in a child process, because it may crash on
// the handle of zeros.
int RealStatus(const Library& library, const Refused& refused, Function call) {
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
    *status = (arguments.*call)();
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
  for (const Refused& refused : kRefused) {
    for (const Function call : refused.calls) real.push_back(RealStatus(real_, refused, call));
  }
  // The handle is made after all forks, because forked children would lack its threads.
  cudnnHandle_t handle = nullptr;
  ASSERT_EQ(ours_[CUDNN(Create)](&handle), CUDNN_STATUS_SUCCESS);
  size_t calls = 0;
  for (const Refused& refused : kRefused) {
    for (size_t i = 0; i < refused.calls.size(); ++i) {
      SCOPED_TRACE(testing::Message() << refused.what << ", number " << i);
      const int expected = real[calls++];
      EXPECT_TRUE(expected == CUDNN_STATUS_BAD_PARAM || expected == CUDNN_STATUS_NOT_SUPPORTED)
          << "the real library answers " << expected;
      Arguments arguments(ours_);
      arguments.handle = handle;
      refused.spoil(arguments);
      EXPECT_EQ(static_cast<int>((arguments.*refused.calls[i])()), expected);
    }
  }
  ours_[CUDNN(Destroy)](handle);
}

}  // namespace
