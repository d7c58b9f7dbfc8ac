#include "interposer/core/checked_call.h"

#include <cuda.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"
#include "shim/host/hostgpu.h"
#include "tests/support/cases.h"
#include "tests/support/compared_problem.h"
#include "tests/support/device.h"
#include "tests/support/engines.h"
#include "tests/support/faulty_cudnn.h"
#include "tests/support/random_problem.h"
#include "tests/support/seeded_random.h"
#include "tests/support/stand_in.h"
#include "tuning/tuning_handle.h"

namespace ucudnn::interposer {
namespace {

using test::ComparedProblem;
using test::Fault;
using test::FreeBytes;
using test::kOperations;
using test::MakeContextCurrent;
using test::WriteByte;
using ::testing::HasSubstr;
using tuning::ComparisonResult;
using Bytes = std::vector<std::byte>;

// Writes `value` as `type`, rounded towards zero.
void Encode(DataType type, double value, std::byte* to) {
  const auto narrow = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  switch (type) {
    case DataType::kFloat:
      std::memcpy(to, &narrow, sizeof narrow);
      return;
    case DataType::kDouble:
      std::memcpy(to, &value, sizeof value);
      return;
    case DataType::kBfloat16: {
      const auto half = static_cast<uint16_t>(bits >> 16);
      std::memcpy(to, &half, sizeof half);
      return;
    }
    case DataType::kHalf: {
      const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
      uint16_t half = 0;
      if (exponent >= 31) {
        half = 0x7c00;
      } else if (exponent > 0) {
        half = static_cast<uint16_t>(exponent << 10 | (bits >> 13 & 0x3ff));
      }
      half = static_cast<uint16_t>(half | (bits >> 16 & 0x8000));
      std::memcpy(to, &half, sizeof half);
    }
  }
}

// The caller of a convolution: it has tensors with normally distributed data, a handle and a
// stream.
class Caller {
 public:
  Caller(const ConvolutionProblem& problem, double mean, unsigned seed = 1)
      : problem_(problem), handle_(*cuda::GetDriver(), real_), descriptors_(real_) {
    MakeContextCurrent();
    EXPECT_TRUE(handle_.Create().ok());
    EXPECT_TRUE(descriptors_.Create(problem).ok());
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(mean, 1);
    const tuning::Tensor tensors[] = {tuning::ImageTensor(problem), tuning::FilterTensor(problem),
                                      tuning::OutputTensor(problem)};
    for (int i = 0; i < 3; ++i) {
      contents_[i].resize(tensors[i].Bytes());
      for (size_t at = 0; at < contents_[i].size(); at += ElementBytes(problem.type)) {
        Encode(problem.type, normal(random), &contents_[i][at]);
      }
      buffers_[i] = std::make_unique<cuda::DeviceBuffer>(memory_, *cuda::GetDriver());
      EXPECT_TRUE(buffers_[i]->Reserve(contents_[i].size()).ok());
    }
  }

  std::vector<cudnn::EngineChoice> Engines(int images) const {
    ConvolutionProblem part = problem_;
    part.n = images;
    cudnn::LegacyEngines engines(real_, handle_.get());
    return test::Choices(engines, part);
  }
  MicroConfiguration Micro(const std::string& engine, int images) const {
    for (const cudnn::EngineChoice& choice : Engines(images)) {
      if (choice.engine != engine) continue;
      const MicroConfiguration whole = {engine, images, 1, choice.workspace_bytes, true};
      return IsPartial(problem_, images) ? AsPartial(problem_, whole, 0) : whole;
    }
    return {};
  }

  // Restores the tensors and returns a call with this alpha and beta.
  cudnn::ConvolutionCall Call(double alpha, double beta, size_t workspace_bytes) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(cuMemcpyHtoD(buffers_[i]->address(), contents_[i].data(), contents_[i].size()),
                CUDA_SUCCESS);
    }
    EXPECT_TRUE(workspace_.Reserve(workspace_bytes).ok());
    scales_[0] = alpha, scales_[1] = beta;
    narrow_scales_[0] = static_cast<float>(alpha), narrow_scales_[1] = static_cast<float>(beta);
    const bool wide = problem_.type == DataType::kDouble;
    cudnn::ConvolutionCall call;
    call.operation = problem_.operation;
    call.handle = handle_.get();
    call.descriptors = descriptors_.get();
    call.alpha = wide ? static_cast<const void*>(&scales_[0]) : &narrow_scales_[0];
    call.beta = wide ? static_cast<const void*>(&scales_[1]) : &narrow_scales_[1];
    call.x = buffers_[0]->data();
    call.w = buffers_[1]->data();
    call.y = buffers_[2]->data();
    call.workspace = workspace_bytes > 0 ? workspace_.data() : nullptr;
    call.workspace_bytes = workspace_bytes;
    return call;
  }

  Bytes Output(const cudnn::ConvolutionCall& call) {
    EXPECT_TRUE(handle_.stream().Synchronize().ok());
    Bytes bytes(tuning::ResultTensor(problem_).Bytes());
    EXPECT_EQ(cuMemcpyDtoH(bytes.data(),
                           reinterpret_cast<CUdeviceptr>(call.*cudnn::OutputOf(call.operation)),
                           bytes.size()),
              CUDA_SUCCESS);
    return bytes;
  }

  Bytes& contents(int tensor) { return contents_[tensor]; }
  CUstream stream() { return handle_.stream().get(); }
  const ConvolutionProblem& problem() const { return problem_; }

 private:
  const cudnn::Functions real_ = test::StandIn();
  const ConvolutionProblem problem_;
  mutable tuning::TuningHandle handle_;
  cudnn::OwnedDescriptors descriptors_;
  Bytes contents_[3];
  const cuda::MemoryPool memory_{*cuda::GetDriver()};  // without Create(): uses cuMemAlloc
  std::unique_ptr<cuda::DeviceBuffer> buffers_[3];
  cuda::DeviceBuffer workspace_{memory_, *cuda::GetDriver()};
  double scales_[2];
  float narrow_scales_[2];
};

struct Checked {
  CheckedCall call;
  Bytes output;
  Bytes undivided;  // the output of the undivided engine without a check
};

// Runs `engine` in pieces of 4, 4 and 2 images, and checks the result against algorithm 0.
Checked CheckThree(Caller& caller, const Fault& fault, double alpha = 1, double beta = 0,
                   const std::string& engine = "legacy:1") {
  const Configuration configuration = {
      {{caller.Micro(engine, 4), 2}, {caller.Micro(engine, 2), 1}}};
  const MicroConfiguration undivided = caller.Micro("legacy:0", caller.problem().n);
  const size_t workspace = std::max(configuration.WorkspaceBytes(), undivided.workspace_bytes);
  const auto numeric = tuning::CoarsestClass(caller.problem().operation, configuration.runs);
  EXPECT_TRUE(numeric.ok());

  const cudnn::Functions real = test::StandIn();
  auto alone = test::LegacySchedule(real, caller.problem(), Configuration{}, undivided);
  EXPECT_TRUE(alone.ok()) << alone.message();
  Checked checked;
  execution::Outcome outcome;
  cudnn::ConvolutionCall call = caller.Call(alpha, beta, workspace);
  EXPECT_EQ((*alone)->RunUndivided(call, outcome), CUDNN_STATUS_SUCCESS);
  checked.undivided = caller.Output(call);

  const cudnn::Functions faulty = test::FaultyStandIn(fault);
  auto made = test::LegacySchedule(faulty, caller.problem(), configuration, undivided);
  EXPECT_TRUE(made.ok()) << made.message();
  call = caller.Call(alpha, beta, workspace);
  const size_t before = FreeBytes();
  checked.call = RunChecked(*cuda::GetDriver(),
                            {nullptr, caller.stream(), **made, caller.problem(), *numeric, call});
  EXPECT_EQ(FreeBytes(), before);
  checked.output = caller.Output(call);
  return checked;
}

constexpr Fault kNoFault = {-1};

TEST(RunChecked, GivesTheUndividedResultAndFindsThePlanEqual) {
  for (const Operation operation : kOperations) {
    for (const DataType type :
         {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble}) {
      for (const double beta : {0.0, 2.0}) {
        for (const double mean : {0.0, 1.0}) {
          SCOPED_TRACE(Describe(ComparedProblem(operation, type)) + " beta " +
                       std::to_string(beta));
          Caller caller(ComparedProblem(operation, type), mean);
          const std::string engine = type == DataType::kDouble ? "legacy:0" : "legacy:1";
          const Checked checked = CheckThree(caller, kNoFault, 0.5, beta, engine);
          EXPECT_TRUE(checked.call.done);
          EXPECT_EQ(checked.call.verification.result, ComparisonResult::kEqual)
              << checked.call.verification.message;
          EXPECT_EQ(checked.output, checked.undivided);
        }
      }
    }
  }
}

TEST(RunChecked, AWrongPlanIsToldAndChangesNothing) {
  static const float kTwo = 2;
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Caller caller(ComparedProblem(operation), 0);
    const Checked checked = CheckThree(
        caller, {1, nullptr, [](cudnn::ConvolutionCall& call) { call.alpha = &kTwo; }}, 1, 1);
    EXPECT_TRUE(checked.call.done);
    EXPECT_EQ(checked.call.verification.result, ComparisonResult::kDifferent);
    EXPECT_THAT(checked.call.verification.message, HasSubstr("elements differ"));
    EXPECT_EQ(checked.output, checked.undivided);
  }
}

TEST(RunChecked, WhatIsWrittenBeyondTheOutputIsFoundOut) {
  Caller caller(ComparedProblem(Operation::kForward), 0);
  const Checked checked =
      CheckThree(caller, {2, [](const cudnn::ConvolutionCall& call) {
                            WriteByte(static_cast<char*>(call.y) + 2 * 4 * 16 * 108);
                          }});
  EXPECT_TRUE(checked.call.done);
  EXPECT_EQ(checked.call.verification.result, ComparisonResult::kTrespassed);
  EXPECT_EQ(checked.output, checked.undivided);
}

TEST(RunChecked, AFailingPieceIsNoVerdictAndCostsNothing) {
  Caller caller(ComparedProblem(Operation::kBackwardFilter), 0);
  const Checked checked =
      CheckThree(caller, {1, nullptr, nullptr, CUDNN_STATUS_EXECUTION_FAILED}, 1, 1);
  EXPECT_TRUE(checked.call.done);
  EXPECT_EQ(checked.call.verification.result, ComparisonResult::kNotCompared);
  EXPECT_EQ(checked.call.verification.message, "a piece of the plan failed");
  EXPECT_EQ(checked.output, checked.undivided);
}

TEST(RunChecked, AFailingUndividedEngineLeavesTheCallToTheCaller) {
  Caller caller(ComparedProblem(Operation::kForward), 0);
  const Checked checked = CheckThree(caller, {3, nullptr, nullptr, CUDNN_STATUS_EXECUTION_FAILED});
  EXPECT_FALSE(checked.call.done);
  EXPECT_EQ(checked.call.verification.result, ComparisonResult::kNotCompared);
  EXPECT_EQ(checked.output, caller.contents(2));
}

TEST(RunChecked, WithoutMemoryTheCallIsLeftToTheCaller) {
  Caller caller(ComparedProblem(Operation::kForward), 0);
  const Configuration configuration = {{{caller.Micro("legacy:0", 5), 2}}};
  const cudnn::Functions real = test::StandIn();
  auto made =
      test::LegacySchedule(real, caller.problem(), configuration, caller.Micro("legacy:0", 10));
  ASSERT_TRUE(made.ok());
  const cudnn::ConvolutionCall call = caller.Call(1, 0, 0);
  hostgpuInjectFault("alloc", 1);
  const CheckedCall checked =
      RunChecked(*cuda::GetDriver(),
                 {nullptr, caller.stream(), **made, caller.problem(), NumericClass::kDirect, call});
  hostgpuInjectFault("alloc", 0);
  EXPECT_FALSE(checked.done);
  EXPECT_THAT(checked.verification.message, HasSubstr("allocating"));
  EXPECT_EQ(caller.Output(call), caller.contents(2));
}

TEST(RunChecked, APlanThatNothingCanReplaceIsNotChecked) {
  Caller caller(ComparedProblem(Operation::kForward), 0);
  const Configuration configuration = {{{caller.Micro("legacy:0", 5), 2}}};
  const cudnn::Functions real = test::StandIn();
  auto made = test::LegacySchedule(real, caller.problem(), configuration, {});
  ASSERT_TRUE(made.ok());
  const cudnn::ConvolutionCall call = caller.Call(1, 0, 0);
  const CheckedCall checked =
      RunChecked(*cuda::GetDriver(),
                 {nullptr, caller.stream(), **made, caller.problem(), NumericClass::kDirect, call});
  EXPECT_FALSE(checked.done);
  EXPECT_EQ(caller.Output(call), caller.contents(2));
}

// An infinity or NaN in the caller's own data is no fault of the plan.
TEST(RunChecked, NanAndInfinityOfTheCallersAgree) {
  for (const double special :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Caller caller(ComparedProblem(Operation::kForward), 0);
    Encode(DataType::kFloat, special, &caller.contents(0)[4 * 500]);
    const Checked checked = CheckThree(caller, kNoFault, 1, 0, "legacy:0");
    EXPECT_TRUE(checked.call.done);
    EXPECT_EQ(checked.call.verification.result, ComparisonResult::kEqual)
        << checked.call.verification.message;
  }
}

// A residual connection may compute in place: z is the output itself.
TEST(RunChecked, ZMayBeTheOutput) {
  Caller caller(ComparedProblem(Operation::kForward), 0);
  cudnnActivationDescriptor_t relu;
  cudnnTensorDescriptor_t bias_shape;
  ASSERT_EQ(cudnnCreateActivationDescriptor(&relu), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnCreateTensorDescriptor(&bias_shape), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(
      cudnnSetTensor4dDescriptor(bias_shape, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 16, 1, 1),
      CUDNN_STATUS_SUCCESS);
  const Configuration configuration = {{{caller.Micro("legacy:1", 5), 2}}};
  const MicroConfiguration undivided = caller.Micro("legacy:1", 10);
  const cudnn::Functions real = test::StandIn();
  auto made = test::LegacySchedule(real, caller.problem(), configuration, undivided);
  ASSERT_TRUE(made.ok());
  const float alpha2 = 1;
  const auto with_bias = [&](cudnn::ConvolutionCall& call, cudnn::BiasActivation& bias) {
    bias = {&alpha2, call.descriptors.y, call.y, bias_shape, call.w, relu};
    call.bias = &bias;
  };
  cudnn::BiasActivation bias;
  cudnn::ConvolutionCall call = caller.Call(1, 0, undivided.workspace_bytes);
  with_bias(call, bias);
  execution::Outcome outcome;
  ASSERT_EQ((*made)->RunUndivided(call, outcome), CUDNN_STATUS_SUCCESS);
  const Bytes expected = caller.Output(call);
  call = caller.Call(1, 0, undivided.workspace_bytes);
  with_bias(call, bias);
  const CheckedCall checked =
      RunChecked(*cuda::GetDriver(),
                 {nullptr, caller.stream(), **made, caller.problem(), NumericClass::kDirect, call});
  EXPECT_TRUE(checked.done);
  EXPECT_EQ(checked.verification.result, ComparisonResult::kEqual) << checked.verification.message;
  EXPECT_EQ(caller.Output(call), expected);
  EXPECT_EQ(cudnnDestroyActivationDescriptor(relu), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(bias_shape), CUDNN_STATUS_SUCCESS);
}

// Correct plans of any engine on normally distributed data, centred or not, are never reported.
TEST(RunChecked, RandomRightPlansAreNeverReported) {
  test::SeededRandom random;
  MakeContextCurrent();
  const cudnn::Functions real = test::StandIn();
  const int rounds = test::Cases(300, 100);
  int checked_calls = 0;
  for (int round = 0; round < rounds; ++round) {
    ConvolutionProblem problem = RandomProblem(random);
    problem.n = 2 + 2 * (problem.n % 4);
    problem.compute = problem.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
    if (!tuning::ImageTensor(problem).IsNested() || !tuning::OutputTensor(problem).IsNested()) {
      continue;
    }
    problem.alignment = 16;
    if (problem.n / 2 % LegalStep(problem) != 0) continue;
    SCOPED_TRACE(Describe(problem));
    Caller caller(problem, static_cast<double>(random() % 3) / 2, random());
    const std::vector<cudnn::EngineChoice> whole = caller.Engines(problem.n);
    const std::vector<cudnn::EngineChoice> half = caller.Engines(problem.n / 2);
    if (whole.empty() || half.empty()) continue;
    const cudnn::EngineChoice& a = whole[random() % whole.size()];
    const cudnn::EngineChoice& b = half[random() % half.size()];
    MicroConfiguration piece = {b.engine, problem.n / 2, 1, b.workspace_bytes, true};
    if (SumsPartials(problem)) piece = AsPartial(problem, piece, 0);
    const Configuration configuration = {{{piece, 2}}};
    const MicroConfiguration undivided = {a.engine, problem.n, 1, a.workspace_bytes, true};
    auto made = test::LegacySchedule(real, problem, configuration, undivided);
    ASSERT_TRUE(made.ok()) << made.message();
    const auto numeric = a.numeric == NumericClass::kDirect ? b.numeric : a.numeric;
    const cudnn::ConvolutionCall call = caller.Call(
        1, static_cast<double>(random() % 2), std::max(a.workspace_bytes, piece.workspace_bytes));
    const CheckedCall checked =
        RunChecked(*cuda::GetDriver(), {nullptr, caller.stream(), **made, problem, numeric, call});
    EXPECT_TRUE(checked.done);
    EXPECT_NE(checked.verification.result, ComparisonResult::kDifferent)
        << checked.verification.message;
    EXPECT_NE(checked.verification.result, ComparisonResult::kTrespassed)
        << checked.verification.message;
    checked_calls += checked.verification.result == ComparisonResult::kEqual ? 1 : 0;
  }
  EXPECT_GE(checked_calls, test::Cases(60, 10));
}

}  // namespace
}  // namespace ucudnn::interposer
