// Tests that the functions of layers refuse arguments with the real library's status.
//
// The real library cannot make a handle without a GPU. But it checks the other arguments before the
// handle, so it refuses wrong arguments even if the handle consists of zeros. Calls with such a
// handle are made in a separate process. Only refusals are compared. A case spoils some arguments;
// all other arguments are right.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/host/cudnn/conformance.h"

namespace {

constexpr auto kF = CUDNN_DATA_FLOAT;
constexpr auto kH = CUDNN_DATA_HALF;
constexpr auto kD = CUDNN_DATA_DOUBLE;
constexpr auto kNoMode = static_cast<cudnnBatchNormMode_t>(3);
constexpr auto kNoOps = static_cast<cudnnBatchNormOps_t>(3);

// Holds arguments with which cuDNN accepts every call below; ArgumentConformance makes the
// descriptors. Each row of the table spoils some of the arguments.
struct Arguments {
  static inline double one = 1, memory[16] = {};
  static inline size_t bytes = 0;
  Twin<cudnnHandle_t> handle;
  Twin<cudnnPoolingDescriptor_t> pooling;
  Twin<cudnnActivationDescriptor_t> activation, behind;
  Twin<cudnnOpTensorDescriptor_t> op;
  Twin<cudnnTensorDescriptor_t> x, dx, y, dy, a, b, parameters;
  cudnnSoftmaxAlgorithm_t softmax = CUDNN_SOFTMAX_ACCURATE;
  cudnnSoftmaxMode_t mode = CUDNN_SOFTMAX_MODE_CHANNEL;
  cudnnBatchNormMode_t batch_mode = CUDNN_BATCHNORM_SPATIAL;
  cudnnBatchNormOps_t batch_ops = CUDNN_BATCHNORM_OPS_BN;
  size_t* size = &bytes;
  double epsilon = 1e-5;
  const void *alpha = &one, *beta = &one;
  void *x_data = memory, *dx_data = memory + 1, *y_data = memory + 2, *dy_data = memory + 3;
  void *a_data = memory + 4, *b_data = memory + 5;
  void *scale = memory + 6, *mean = memory + 7, *inverse = memory + 8;
};

class ArgumentConformance : public Conformance, public Arguments {
 protected:
  using Function = Outcome (ArgumentConformance::*)(Side);

  // Describes a row of the table: `spoil` changes the arguments so that all of `calls` are refused.
  struct Refused {
    const char* spoiled;
    std::vector<Function> calls;
    std::function<void()> spoil;
  };

  void SetUp() override {
    Conformance::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    static std::vector<char> zeros(size_t{1} << 20);
    handle.of[kReal] = reinterpret_cast<cudnnHandle_t>(zeros.data());
    pooling = Make(KIND(Pooling), CUDNN(SetPooling2dDescriptor), CUDNN_POOLING_MAX,
                   CUDNN_NOT_PROPAGATE_NAN, 3, 3, 1, 1, 2, 2);
    activation = Activation(CUDNN_ACTIVATION_RELU);
    op = Operation(kF);
    x = dx = b = a = Tensor(kF, {2, 3, 7, 7});
    y = dy = Tensor(kF, {2, 3, 4, 4});
    parameters = Tensor(kF, {1, 3, 1, 1});
  }
  Twin<cudnnTensorDescriptor_t> Tensor(cudnnDataType_t type, const std::vector<int>& dims,
                                       cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW) {
    return Make(KIND(Tensor), CUDNN(SetTensorNdDescriptorEx), format, type, dims.size(),
                dims.data());
  }
  Twin<cudnnTensorDescriptor_t> Strided(const std::vector<int>& dims,
                                        const std::vector<int>& strides) {
    return Make(KIND(Tensor), CUDNN(SetTensorNdDescriptor), kF, dims.size(), dims.data(),
                strides.data());
  }
  Twin<cudnnActivationDescriptor_t> Activation(cudnnActivationMode_t kind) {
    return Make(KIND(Activation), CUDNN(SetActivationDescriptor), kind, CUDNN_NOT_PROPAGATE_NAN, 0);
  }
  Twin<cudnnOpTensorDescriptor_t> Operation(cudnnDataType_t compute) {
    return Make(KIND(OpTensor), CUDNN(SetOpTensorDescriptor), CUDNN_OP_TENSOR_ADD, compute,
                CUDNN_NOT_PROPAGATE_NAN);
  }

// Declares a call of `function`, whose name in the table is `name`.
#define CALL(name, function, ...)                                                              \
  Outcome name##Call(Side side) { return Answer(side, CUDNN(function), handle, __VA_ARGS__); } \
  static constexpr auto name = &ArgumentConformance::name##Call
  CALL(PoolForward, PoolingForward, pooling, alpha, x, x_data, beta, y, y_data);
  CALL(PoolBackward, PoolingBackward, pooling, alpha, y, y_data, dy, dy_data, x, x_data, beta, dx,
       dx_data);
  CALL(SoftmaxForward, SoftmaxForward, softmax, mode, alpha, x, x_data, beta, dx, y_data);
  CALL(SoftmaxBackward, SoftmaxBackward, softmax, mode, alpha, y, y_data, dy, dy_data, beta, dx,
       dx_data);
  CALL(Operate, OpTensor, op, alpha, a, a_data, alpha, b, b_data, beta, x, x_data);
  CALL(Train, BatchNormalizationForwardTraining, batch_mode, alpha, beta, x, x_data, dx, y_data,
       parameters, scale, scale, 1, mean, mean, epsilon, mean, inverse);
  CALL(Infer, BatchNormalizationForwardInference, batch_mode, alpha, beta, x, x_data, dx, y_data,
       parameters, scale, scale, mean, inverse, epsilon);
  CALL(Unlearn, BatchNormalizationBackward, batch_mode, alpha, beta, alpha, beta, x, x_data, a,
       dy_data, dx, dx_data, parameters, scale, y_data, y_data, epsilon, mean, inverse);
  CALL(TrainEx, BatchNormalizationForwardTrainingEx, batch_mode, batch_ops, alpha, beta, x, x_data,
       nullptr, nullptr, dx, y_data, parameters, scale, scale, 1, mean, mean, epsilon, mean,
       inverse, behind, nullptr, 0, nullptr, 0);
  CALL(UnlearnEx, BatchNormalizationBackwardEx, batch_mode, batch_ops, alpha, beta, alpha, beta, x,
       x_data, nullptr, nullptr, a, dy_data, nullptr, nullptr, dx, dx_data, parameters, scale,
       nullptr, y_data, y_data, epsilon, mean, inverse, behind, nullptr, 0, nullptr, 0);
  CALL(TrainExWorkspace, GetBatchNormalizationForwardTrainingExWorkspaceSize, batch_mode, batch_ops,
       x, nullptr, dx, parameters, behind, size);
  CALL(UnlearnExWorkspace, GetBatchNormalizationBackwardExWorkspaceSize, batch_mode, batch_ops, x,
       nullptr, a, nullptr, dx, parameters, behind, size);
  CALL(Reserve, GetBatchNormalizationTrainingExReserveSpaceSize, batch_mode, batch_ops, behind, x,
       size);
  CALL(Add, AddTensor, alpha, a, a_data, beta, x, x_data);
  CALL(Bias, ConvolutionBackwardBias, alpha, x, x_data, beta, parameters, y_data);
  CALL(ActivateForward, ActivationForward, activation, alpha, x, x_data, beta, dx, y_data);
  CALL(ActivateBackward, ActivationBackward, activation, alpha, a, y_data, b, dy_data, x, x_data,
       beta, dx, dx_data);
#undef CALL

  // Makes `call` with the arguments that refused.spoil() changes, and restores the arguments.
  // Returns the call's status.
  int Status(Side side, const Refused& refused, Function call) {
    const Arguments right = *this;
    refused.spoil();
    const Outcome outcome = (this->*call)(side);
    static_cast<Arguments&>(*this) = right;
    return static_cast<int>(outcome[0]);
  }
  // Returns the real library's status, or -1 if it crashed on the handle of zeros. The call is made
  // in a child process.
  int RealStatus(const Refused& refused, Function call) {
    static int* const status = static_cast<int*>(
        mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    *status = -1;
    const pid_t child = fork();
    if (child == 0) {
      for (const int fault : {SIGFPE, SIGSEGV, SIGBUS}) signal(fault, SIG_DFL);
      *status = Status(kReal, refused, call);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    return *status;
  }
};

#define REFUSED(statement, ...)                    \
  {                                                \
#statement, {__VA_ARGS__ }, [&] { statement; } \
  }

TEST_F(ArgumentConformance, RefusalsAreTheRealLibrarys) {
  const std::vector<Refused> table = {
    REFUSED(handle = {}, PoolForward, Operate, Train, TrainEx, TrainExWorkspace, UnlearnExWorkspace,
            Reserve),
    REFUSED(pooling = {}, PoolForward),
    REFUSED(x = {}, PoolForward, SoftmaxForward, TrainEx, TrainExWorkspace, UnlearnExWorkspace,
            Reserve),
    REFUSED(y = {}, PoolForward),
    REFUSED(x_data = nullptr, PoolForward, SoftmaxForward, Train, TrainEx, UnlearnEx),
    REFUSED(y_data = nullptr, PoolForward, PoolBackward, Unlearn, UnlearnEx),
    REFUSED(alpha = nullptr, PoolForward, SoftmaxForward, Operate, Train),
    REFUSED(beta = nullptr, PoolForward, Operate, TrainEx, UnlearnEx, Add),
    REFUSED(y = Tensor(kH, {2, 3, 4, 4}), PoolForward),
    REFUSED(y = Tensor(kF, {1, 3, 4, 4}), PoolForward),
    REFUSED(y = Tensor(kF, {2, 4, 4, 4}), PoolForward),
    REFUSED(y = Tensor(kF, {2, 3, 4, 4, 4}), PoolForward),
    REFUSED(x = Tensor(kF, {2, 3, 7}), PoolForward),
    REFUSED(x = Make(KIND(Tensor)), PoolForward),
    REFUSED(pooling = Make(KIND(Pooling)), PoolForward),
    REFUSED(dy_data = nullptr, PoolBackward),
    REFUSED(dx_data = nullptr, PoolBackward),
    REFUSED(dy = Tensor(kF, {2, 3, 4, 5}), PoolBackward),
    REFUSED(dy = Tensor(kH, {2, 3, 4, 4}), PoolBackward),
    REFUSED(dy = Tensor(kF, {2, 3, 4, 4}, CUDNN_TENSOR_NHWC), PoolBackward),
    REFUSED(dx = Tensor(kF, {2, 3, 7, 8}), PoolBackward, SoftmaxForward, Train, Infer, TrainEx,
            TrainExWorkspace, ActivateForward, ActivateBackward),
    REFUSED(dx = Tensor(kH, {2, 3, 7, 7}), PoolBackward, Train, Unlearn, TrainEx, UnlearnEx,
            TrainExWorkspace, UnlearnExWorkspace, ActivateForward, ActivateBackward),
    REFUSED(dx = Tensor(kF, {2, 3, 7, 7}, CUDNN_TENSOR_NHWC), PoolBackward),
    REFUSED(softmax = static_cast<cudnnSoftmaxAlgorithm_t>(3), SoftmaxForward),
    REFUSED(softmax = static_cast<cudnnSoftmaxAlgorithm_t>(-1), SoftmaxForward),
    REFUSED(mode = static_cast<cudnnSoftmaxMode_t>(2), SoftmaxForward),
    REFUSED(dx = Tensor(kD, {2, 3, 7, 7}), SoftmaxForward),
    REFUSED(x = dx = Tensor(kF, {2, 3}), SoftmaxForward),
    REFUSED(x = dx = Make(KIND(Tensor)), SoftmaxForward, Train, TrainEx, TrainExWorkspace),
    REFUSED(x = dx = Tensor(CUDNN_DATA_INT32, {2, 3, 7, 7}), SoftmaxForward),
    REFUSED(dx = Tensor(kF, {2, 3, 4, 4}); dy = Tensor(kF, {2, 3, 4, 5}), SoftmaxBackward),
    REFUSED(dx = Tensor(kF, {2, 3, 4, 4});
            dy = Tensor(kF, {2, 3, 4, 4}, CUDNN_TENSOR_NHWC), SoftmaxBackward),
    REFUSED(dx = Tensor(kF, {2, 3, 4, 5}), SoftmaxBackward),
    REFUSED(dx = Tensor(kH, {2, 3, 4, 4}), SoftmaxBackward),
    REFUSED(dx = Tensor(kF, {2, 3, 4, 4}); dy_data = nullptr, SoftmaxBackward),
    REFUSED(b = {}, Operate),
    REFUSED(b_data = nullptr, Operate),
    REFUSED(b = Tensor(kF, {1, 2, 1, 1}), Operate),
    REFUSED(b = Tensor(kF, {1, 3, 1}), Operate),
    REFUSED(a = Tensor(kF, {1, 3, 1, 1}), Operate),
    REFUSED(a = Tensor(kF, {2, 3, 7, 8}), Operate, Unlearn, UnlearnEx, UnlearnExWorkspace),
    REFUSED(a = Tensor(kH, {2, 3, 7, 7}), Operate, Unlearn, Add),
    REFUSED(b = Tensor(kH, {2, 3, 7, 7}), Operate),
    REFUSED(op = Operation(kH), Operate),
    REFUSED(op = Operation(kD), Operate),
    REFUSED(a = b = x = Tensor(kD, {2, 3, 7, 7}), Operate),
    REFUSED(a = b = x = Tensor(kF, {2, 3, 7}), Operate),
    REFUSED(a = b = x = Tensor(kF, {2, 3, 1, 1, 7, 7}), Operate),
    REFUSED(a = b = x = Make(KIND(Tensor)), Operate),
    REFUSED(b_data = x_data, Operate),
    REFUSED(parameters = {}, Train, TrainEx, TrainExWorkspace, UnlearnExWorkspace),
    REFUSED(scale = nullptr, Train, TrainEx),
    REFUSED(inverse = nullptr, Train, Infer, TrainEx),
    REFUSED(batch_mode = static_cast<cudnnBatchNormMode_t>(-1), Train),
    REFUSED(batch_mode = kNoMode, Train, TrainEx, UnlearnEx, TrainExWorkspace, UnlearnExWorkspace,
            Reserve),
    REFUSED(batch_mode = CUDNN_BATCHNORM_PER_ACTIVATION, Train, TrainEx, TrainExWorkspace),
    REFUSED(parameters = Tensor(kF, {1, 3, 7, 7}), Train, Infer, Unlearn, Bias),
    REFUSED(parameters = Tensor(kF, {1, 4, 1, 1}), Train, TrainEx, UnlearnEx, Bias),
    REFUSED(parameters = Tensor(kH, {1, 3, 1, 1}), Train, Bias),
    REFUSED(parameters = Tensor(kD, {1, 3, 1, 1}), Train, TrainEx, TrainExWorkspace),
    REFUSED(parameters = Tensor(kF, {1, 3, 1}), Train),
    REFUSED(parameters = Strided({1, 3, 1, 1}, {6, 2, 1, 1}), Train),
    REFUSED(x = dx = Tensor(kF, {2, 3, 7}); parameters = Tensor(kF, {1, 3, 1}), Train),
    REFUSED(epsilon = -1e-5, Train, Infer, Unlearn, TrainEx, UnlearnEx),
    REFUSED(mean = nullptr, Infer, Unlearn, UnlearnEx),
    REFUSED(batch_mode = static_cast<cudnnBatchNormMode_t>(7), Infer),
    REFUSED(batch_mode = static_cast<cudnnBatchNormMode_t>(9), Unlearn),
    REFUSED(batch_ops = kNoOps, TrainEx, UnlearnEx, UnlearnExWorkspace, Reserve),
    REFUSED(batch_ops = CUDNN_BATCHNORM_OPS_BN_ACTIVATION, TrainEx, UnlearnEx, UnlearnExWorkspace),
    REFUSED(dx = {}, TrainExWorkspace, UnlearnExWorkspace),
    REFUSED(size = nullptr, TrainExWorkspace, UnlearnExWorkspace, Reserve),
    REFUSED(x = dx = Tensor(CUDNN_DATA_INT8, {2, 3, 7, 7}), TrainExWorkspace),
    REFUSED(a = {}, UnlearnExWorkspace),
    REFUSED(a = x = dx = Tensor(CUDNN_DATA_INT8, {2, 3, 7, 7}), UnlearnExWorkspace),
    REFUSED(batch_ops = CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, Reserve),
    REFUSED(a = Tensor(kF, {2, 3, 7, 6}), Add),
    REFUSED(a = Tensor(kF, {1, 3, 1}), Add),
    REFUSED(a = x = Tensor(kF, {2, 3, 1, 1, 7, 7}), Add),
    REFUSED(a_data = nullptr, Add),
    REFUSED(parameters = Tensor(kF, {2, 3, 1, 1}), Bias),
    REFUSED(activation = Activation(CUDNN_ACTIVATION_IDENTITY), ActivateForward),
  };
  std::vector<int> statuses;
  for (const Refused& refused : table) {
    for (const Function call : refused.calls) statuses.push_back(RealStatus(refused, call));
  }
  // The handle is made after all forks, because forked children would lack its threads.
  ASSERT_EQ(Answer(kOurs, CUDNN(Create), &handle)[0], CUDNN_STATUS_SUCCESS);
  auto real = statuses.begin();
  for (const Refused& refused : table) {
    for (const Function call : refused.calls) {
      EXPECT_TRUE(*real == CUDNN_STATUS_BAD_PARAM || *real == CUDNN_STATUS_NOT_SUPPORTED)
          << "the real library answers " << *real << " to " << refused.spoiled;
      Compare(refused.spoiled, {*real++}, {Status(kOurs, refused, call)});
    }
  }
  EXPECT_EQ(static_cast<size_t>(refused_), statuses.size()) << "no descriptor's call is refused";
  Answer(kOurs, CUDNN(Destroy), handle);
}

}  // namespace
