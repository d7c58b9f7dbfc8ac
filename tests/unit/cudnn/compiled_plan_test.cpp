// Tests plans whose kernels cuDNN compiles while it makes the plan, such as plans with a scale or a
// dReLU after the convolution. For another batch, BuildPart lets cuDNN compile the kernels anew.
// BuildPart's plan must equal the plan that the library itself makes for that batch. Uses the real
// library, without a GPU.
#include <gmock/gmock.h>

#include <string>

#include "base/shared_library.h"
#include "cudnn/graph_engines.h"
#include "cudnn/plan_edit.h"
#include "tests/support/cases.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"

namespace ucudnn::cudnn {
namespace {

using test::DescribedDevice;
using test::FusedStep;
using test::Graph;
using test::GraphOptions;
using test::RealCudnn;
using Reads = FusedStep::Reads;
using ::testing::HasSubstr;

constexpr int kBatch = 16, kOtherBatch = 5;

struct Case {
  const char* name;
  Operation operation;
  std::vector<FusedStep> steps;
  const char* text;
};

class CompiledPlans : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    const auto driver = SharedLibrary::Open(LOADING_DRIVER);
    ASSERT_TRUE(driver.ok()) << driver.message();
  }
};

// Returns the JSON of `plan` with the compiled kernels, which GraphTemplate::json lacks.
std::string WholeJson(cudnnBackendDescriptor_t plan) {
  int64_t bytes = 0;
  EXPECT_EQ(
      RealCudnn().cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, 0, &bytes, nullptr),
      CUDNN_STATUS_SUCCESS);
  std::string json(static_cast<size_t>(bytes), '\0');
  EXPECT_EQ(
      RealCudnn().cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, bytes, &bytes, json.data()),
      CUDNN_STATUS_SUCCESS);
  return json;
}

ConvolutionProblem Problem(Operation operation, int n) {
  return test::ProblemWith({.operation = operation,
                            .n = n,
                            .c = 32,
                            .k = 64,
                            .x = {1, 14, 14},
                            .type = DataType::kHalf,
                            .layout = Layout::kNhwc,
                            .alignment = 16});
}

TEST_P(CompiledPlans, AtAnotherBatchIsTheNativePlan) {
  GraphOptions options;
  options.steps = GetParam().steps;
  const ConvolutionProblem problem = Problem(GetParam().operation, kBatch);
  const Graph graph(problem, options);
  ASSERT_TRUE(graph.ok());
  const auto plans = graph.HeuristicPlans(CUDNN_HEUR_MODE_A, 1);
  ASSERT_EQ(plans.size(), 1u);
  const auto read = ReadTemplate(RealCudnn(), plans[0].get());
  ASSERT_TRUE(read.ok()) << read.message();
  ASSERT_NE(read->convolution.engine.graph(), nullptr) << read->convolution.engine;
  const auto& [engine, knobs, fusion] = *read->convolution.engine.graph();
  EXPECT_EQ(fusion, GetParam().text);
  EXPECT_EQ(read->convolution.problem, problem);
  EXPECT_TRUE(read->convolution.compiled);
  // Compiled kernels hold addresses of the process that compiled them. With these kernels the texts
  // of equal plans would differ, so read->json lacks the kernels.
  EXPECT_THAT(WholeJson(plans[0].get()), HasSubstr("\"cubin\":"));
  EXPECT_EQ(read->json.find("cubin"), std::string::npos);

  const Graph other(Problem(GetParam().operation, kOtherBatch), options);
  const auto native = other.Plan(static_cast<int>(engine), knobs);
  ASSERT_TRUE(native);
  const auto rebatched = BuildPart(RealCudnn(), DescribedDevice(), *read,
                                   test::AtBatch(read->convolution, kOtherBatch));
  ASSERT_TRUE(rebatched.ok()) << rebatched.message();
  EXPECT_EQ(*PlanWorkspace(RealCudnn(), rebatched->get()),
            *PlanWorkspace(RealCudnn(), native->get()));
  EXPECT_EQ(*PlanJson(RealCudnn(), rebatched->get()), *PlanJson(RealCudnn(), native->get()));

  // cuDNN would accept kernels compiled for kBatch images in a plan of kOtherBatch images, and
  // these kernels would still write kBatch images. EditPlan edits read->json, which has no kernels,
  // so no plan can be built from the edited JSON.
  const auto edited =
      EditPlan(read->json, read->convolution, test::AtBatch(read->convolution, kOtherBatch));
  ASSERT_TRUE(edited.ok()) << edited.message();
  EXPECT_FALSE(BuildPlan(RealCudnn(), DescribedDevice(), *edited).ok());
}

const FusedStep kScale = {CUDNN_POINTWISE_MUL, Reads::kChannel, {}};
const FusedStep kBias = {CUDNN_POINTWISE_ADD, Reads::kChannel, {}};
const FusedStep kWideScale = {CUDNN_POINTWISE_MUL, Reads::kChannel, DataType::kFloat};
const FusedStep kRelu = {CUDNN_POINTWISE_RELU_FWD, Reads::kNothing, {}};
const FusedStep kSwish = {CUDNN_POINTWISE_SWISH_FWD, Reads::kNothing, {}};
const FusedStep kGradient = {CUDNN_POINTWISE_RELU_BWD, Reads::kWhole, {}};

const Case kCases[] = {
    {"scale_bias_relu", Operation::kForward, {kScale, kBias, kRelu}, "+scale+bias+relu"},
    {"drelu", Operation::kBackwardData, {kGradient}, "+drelu"},
    {"wide_scale_swish", Operation::kForward, {kWideScale, kSwish}, "+scale:fp32+swish"},
    {"scale", Operation::kForward, {kScale}, "+scale"}};

INSTANTIATE_TEST_SUITE_P(Graphs, CompiledPlans,
                         ::testing::ValuesIn(kCases, kCases + test::Cases(4, 2)),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace ucudnn::cudnn
