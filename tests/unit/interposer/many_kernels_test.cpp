// Tests programs whose shapes or workspaces never repeat. A process remembers a limited number of
// kernels. Later kernels run as the caller asked, unless a strict limit or the demand for
// determinism refuses them. Earlier kernels keep their decisions.
#include <gmock/gmock.h>

#include "graph_setting.h"
#include "planned_setting.h"

namespace ucudnn::interposer {
namespace {

using test::PlannedSetting;
using test::ThisRecording;
using ::testing::HasSubstr;

constexpr int kParts = 4;

// Returns the number of pieces that the call ran in.
size_t PiecesRun(PlannedSetting& setting, const cudnn::ConvolutionCall& call) {
  return setting.Run(call).size();
}

// The kernel with this `number`, from 1. The number determines the distance between images, so all
// these kernels are different.
class NumberedKernel {
 public:
  NumberedKernel(PlannedSetting& setting, size_t number)
      : setting_(setting), descriptors_(setting.functions) {
    problem_ = PlannedSetting::Problem();
    problem_.x_strides[0] += 4 * static_cast<int64_t>(number);
    EXPECT_TRUE(descriptors_.Create(problem_).ok());
  }
  // Adds measurements of this kernel to the setting's store.
  void Know() { setting_.Measured(problem_, kParts); }
  cudnn::ConvolutionCall Call() const {
    cudnn::ConvolutionCall call = setting_.Call();
    call.descriptors = descriptors_.get();
    return call;
  }
  const cudnn::Descriptors& descriptors() const { return descriptors_.get(); }

 private:
  PlannedSetting& setting_;
  ConvolutionProblem problem_;
  cudnn::OwnedDescriptors descriptors_;
};

// Returns the last field of a report as text: parsing a report on 10,000 kernels takes seconds
// under ASan.
std::string Fallbacks(Report& report) {
  const std::string json = report.Json("on", 0);
  return json.substr(json.rfind("\"fallbacks\":"));
}

TEST(ManyKernels, BeyondTheLastRememberedCallsRunAsAsked) {
  Options options = PlannedSetting::NotMeasuring();
  options.workspace_limit = PlannedSetting::kPieceBytes;
  PlannedSetting setting(test::RecordingFunctions(), kParts, options);
  EXPECT_EQ(PiecesRun(setting, setting.Call()), size_t{kParts});
  for (size_t kernel = 1; kernel + 1 < kMostKernels; ++kernel) {
    ASSERT_EQ(PiecesRun(setting, NumberedKernel(setting, kernel).Call()), 1u);
  }
  EXPECT_EQ(Fallbacks(setting.interposer.report()).find("too many"), std::string::npos);
  NumberedKernel last(setting, kMostKernels);
  last.Know();
  EXPECT_EQ(PiecesRun(setting, last.Call()), size_t{kParts});

  NumberedKernel late(setting, kMostKernels + 1);
  late.Know();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(PiecesRun(setting, late.Call()), 1u);
  EXPECT_EQ(ThisRecording().calls[0].algorithm, 0);
  EXPECT_FALSE(setting.interposer.legacy().FindAlgorithms(
      Operation::kForward, setting.handle, late.descriptors(), PlannedSetting::kPieceBytes));
  EXPECT_FALSE(setting.interposer.legacy().GetAlgorithms(Operation::kForward, setting.handle,
                                                         late.descriptors()));
  EXPECT_THAT(Fallbacks(setting.interposer.report()), HasSubstr("kernels beyond the first 10000"));

  EXPECT_EQ(PiecesRun(setting, setting.Call()), size_t{kParts});
  EXPECT_EQ(PiecesRun(setting, last.Call()), size_t{kParts});
  // The last kernel is also divided on a handle that never called it.
  cudnnHandle_t another = nullptr;
  ASSERT_EQ(setting.interposer.sessions().Create(&another), CUDNN_STATUS_SUCCESS);
  cudnn::ConvolutionCall call = last.Call();
  call.handle = another;
  EXPECT_EQ(PiecesRun(setting, call), size_t{kParts});
  setting.interposer.sessions().Destroy(another);
}

// A call with another workspace size counts as another kernel.
TEST(ManyKernels, AWorkspaceThatNeverRepeatsFillsNoMemory) {
  PlannedSetting setting(test::RecordingFunctions(), kParts, PlannedSetting::NotMeasuring());
  const size_t first = PlannedSetting::kPieceBytes;
  for (size_t more = 0; more < 2 * kMostKernels; ++more) {
    ASSERT_EQ(PiecesRun(setting, setting.Call(first + more)), size_t{kParts});
  }
  EXPECT_EQ(PiecesRun(setting, setting.Call(first + 2 * kMostKernels)), 1u);
  EXPECT_THAT(Fallbacks(setting.interposer.report()), HasSubstr("too many different kernels"));
  EXPECT_EQ(PiecesRun(setting, setting.Call(first)), size_t{kParts});
}

// Returns the number of real executions in one execution of the plan.
size_t Executed(test::GraphSetting& setting, cudnnBackendDescriptor_t plan) {
  test::Executions() = {};
  EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
  return test::Executions().calls.size();
}

TEST(ManyKernels, BeyondTheLastRememberedPlansOfTheGraphApiRunAsTheyAre) {
  using test::GraphSetting;
  GraphSetting setting;
  setting.interposer.graph().set_most_kernels(1);
  const auto other = setting.Plan(nullptr, setting.Json(0));
  EXPECT_EQ(Executed(setting, other), 1u);
  EXPECT_EQ(Fallbacks(setting.interposer.report()).find("too many"), std::string::npos);
  const auto late = setting.Plan();
  EXPECT_EQ(setting.Workspace(late), GraphSetting::kNeed);
  EXPECT_EQ(Executed(setting, late), 1u);
  test::ExpectUndivided(38);
  EXPECT_THAT(Fallbacks(setting.interposer.report()), HasSubstr("too many different kernels"));
  // An interposer without set_most_kernels divides the same plan.
  GraphSetting unbounded;
  EXPECT_EQ(Executed(unbounded, unbounded.Plan()),
            size_t{GraphSetting::kImages / GraphSetting::kPart});
}

TEST(ManyKernels, BeyondTheLastAStrictLimitAndDeterminismAreKept) {
  using test::GraphSetting;
  for (const bool strict : {true, false}) {
    Options options = GraphSetting::Limited(strict ? GraphSetting::kPartBytes : kNoLimit, strict);
    options.deterministic = !strict;
    GraphSetting setting(options, {});
    setting.interposer.graph().set_most_kernels(0);
    if (!strict) test::Executions().nondeterministic = 38;
    cudnnStatus_t finalized = CUDNN_STATUS_INTERNAL_ERROR;
    setting.Plan(&finalized);
    EXPECT_EQ(finalized, CUDNN_STATUS_NOT_SUPPORTED) << strict;
    // A graph without a convolution is no kernel, so neither limit nor determinism is demanded of
    // it.
    std::string json = setting.Json();
    const std::string convolution = "OPERATION_CONVOLUTION_FORWARD";
    json.replace(json.find(convolution), convolution.size(), "OPERATION_MATMUL");
    setting.Plan(&finalized, json);
    EXPECT_EQ(finalized, CUDNN_STATUS_SUCCESS) << strict;
  }
}

// Kernels that are called with an identity activation count towards the limit, too.
TEST(ManyKernels, IdentityActivationsFillNoMemoryEither) {
  cudnn::Functions functions = test::RecordingFunctions();
  functions.cudnnGetActivationDescriptor = [](auto, auto* mode, auto* nan, double* coefficient) {
    *mode = CUDNN_ACTIVATION_IDENTITY;
    *nan = CUDNN_PROPAGATE_NAN;
    *coefficient = 0;
    return CUDNN_STATUS_SUCCESS;
  };
  functions.cudnnConvolutionBiasActivationForward = [](auto...) { return CUDNN_STATUS_SUCCESS; };
  PlannedSetting setting(functions, kParts, PlannedSetting::NotMeasuring());
  const float one = 1;
  for (size_t kernel = 1; kernel <= kMostKernels + 1; ++kernel) {
    const NumberedKernel numbered(setting, kernel);
    cudnn::ConvolutionCall call = numbered.Call();
    const cudnn::BiasActivation bias = {
        &one, call.descriptors.y, call.y, call.descriptors.y, call.w, nullptr};
    call.bias = &bias;
    ASSERT_EQ(setting.interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS);
  }
  EXPECT_THAT(Fallbacks(setting.interposer.report()), HasSubstr("too many different kernels"));
}

}  // namespace
}  // namespace ucudnn::interposer
