// Tests reading from an execution plan's JSON what the plan computes, and editing that JSON. The
// plans are those of the real library, without a GPU.
#include "cudnn/fused_convolution.h"

#include <gmock/gmock.h>

#include <random>

#include "cudnn/graph_engines.h"
#include "cudnn/plan_edit.h"
#include "cudnn/plan_words.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/problem.h"
#include "tests/support/random_problem.h"

namespace ucudnn::cudnn {
namespace {

using test::Graph;
using test::GraphOptions;
using test::RealCudnn;
using ::testing::HasSubstr;

// There are as many filters as images, so a test fails if a filter's leading extent is mistaken for
// the batch.
ConvolutionProblem Problem(Operation operation = Operation::kForward) {
  return test::ProblemWith(
      {.operation = operation, .n = 64, .c = 32, .k = 64, .x = {1, 28, 28}, .alignment = 16});
}

ConvolutionProblem Nhwc(DataType type, Operation operation = Operation::kForward) {
  ConvolutionProblem problem = Problem(operation);
  problem.type = type;
  problem.layout = Layout::kNhwc;
  SetPackedStrides(problem);
  return problem;
}

// Returns the first plan that the heuristics list for the graph.
std::optional<BackendDescriptor> AnyPlan(const Graph& graph) {
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    auto plans = graph.HeuristicPlans(mode, 16);
    if (!plans.empty()) return std::move(plans[0]);
  }
  return std::nullopt;
}

std::string JsonOf(const ConvolutionProblem& problem, const GraphOptions& options = {}) {
  const Graph graph(problem, options);
  EXPECT_TRUE(graph.ok());
  const auto plan = AnyPlan(graph);
  if (!plan) return "";
  const auto json = PlanJson(RealCudnn(), plan->get());
  EXPECT_TRUE(json.ok()) << json.message();
  return json.ok() ? *json : "";
}

// Returns `json` with its first `from` replaced by `to`.
std::string With(std::string json, const std::string& from, const std::string& to) {
  const size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in " << json;
  return at == std::string::npos ? json : json.replace(at, from.size(), to);
}

std::string Refusal(const std::string& json) {
  const auto convolution = ReadFusedConvolution(json);
  return convolution.ok() ? "read" : convolution.message();
}

TEST(FusedConvolution, ReadsTheThreeOperations) {
  for (const Operation operation : test::kOperations) {
    const ConvolutionProblem problem = Problem(operation);
    GraphOptions options;
    options.alpha = 0.5;
    options.beta = 0.25;
    const auto convolution = ReadFusedConvolution(JsonOf(problem, options));
    ASSERT_TRUE(convolution.ok()) << convolution.message();
    EXPECT_EQ(convolution->problem, problem) << Describe(convolution->problem);
    EXPECT_EQ(convolution->alpha, 0.5);
    EXPECT_EQ(convolution->beta, 0.25);
    EXPECT_EQ(convolution->x_uid, test::kUidX);
    EXPECT_EQ(convolution->w_uid, test::kUidW);
    EXPECT_EQ(convolution->y_uid, test::kUidY);
    EXPECT_TRUE(convolution->operands.empty());
    EXPECT_FALSE(convolution->compiled);
    EXPECT_NE(convolution->engine.graph(), nullptr);
  }
}

TEST(FusedConvolution, ReadsWhateverTheLibraryPlans) {
  constexpr unsigned kSeed = 20260806;
  std::mt19937 random(kSeed);
  int read = 0;
  for (int i = 0; i < 600; ++i) {
    ConvolutionProblem problem = RandomProblem(random);
    problem.math = MathType::kDefault;
    problem.alignment = 16;
    const Graph graph(problem);
    if (!graph.ok()) continue;
    const auto descriptor = AnyPlan(graph);
    if (!descriptor) continue;
    const auto json = PlanJson(RealCudnn(), descriptor->get());
    ASSERT_TRUE(json.ok());
    const auto convolution = ReadFusedConvolution(*json);
    ASSERT_TRUE(convolution.ok()) << convolution.message() << " " << Describe(problem) << " seed "
                                  << kSeed << " case " << i;
    // A filter of one channel or one pixel has the same strides in both layouts, so its layout
    // cannot be read. The test does not compare this layout.
    problem.layout = convolution->problem.layout;
    EXPECT_EQ(convolution->problem, problem)
        << Describe(problem) << " seed " << kSeed << " case " << i;
    ++read;
  }
  std::printf("%d plans read\n", read);
  EXPECT_GE(read, 100);
}

TEST(FusedConvolution, AlignmentIsTheLargestDeclaredForABatch) {
  GraphOptions options;
  options.x_alignment = 4;
  options.y_alignment = 8;
  EXPECT_EQ(ReadFusedConvolution(JsonOf(Problem(), options))->problem.alignment, 8);
}

TEST(FusedConvolution, AStemInHalfMayOnlyBeDividedWhereItsImagesAreAligned) {
  ConvolutionProblem stem = Nhwc(DataType::kHalf);
  stem.c = 4;
  stem.x = {1, 223, 223};
  SetPackedStrides(stem);
  const auto convolution = ReadFusedConvolution(JsonOf(stem));
  ASSERT_TRUE(convolution.ok()) << convolution.message();
  // An image has 223 * 223 * 4 * 2 bytes, which is 8 more than a multiple of 16. Two images have a
  // multiple of 16 bytes.
  EXPECT_EQ(LegalStep(convolution->problem), 2);
}

TEST(FusedConvolution, ReadsWhatIsFused) {
  const ConvolutionProblem problem = Nhwc(DataType::kHalf);
  GraphOptions options;
  options.residual = options.bias = options.relu = true;
  options.residual_scale = 0.5;
  const auto convolution = ReadFusedConvolution(JsonOf(problem, options));
  ASSERT_TRUE(convolution.ok()) << convolution.message();
  EXPECT_EQ(convolution->problem, problem);
  EXPECT_THAT(convolution->engine.Text(), HasSubstr("+residual[1,0.5]+bias+relu"));
  EXPECT_EQ(convolution->y_uid, test::kUidY);
  const size_t image_bytes = size_t{64} * 28 * 28 * 2;
  Strides strides = problem.y_strides;
  strides[2] = 0;  // convolutions of planes have no axis d
  const FusedOperand residual = {test::kUidResidual, DataType::kHalf, strides, image_bytes};
  const FusedOperand bias = {test::kUidBias, DataType::kHalf, {0, 1}, 64 * 2};
  EXPECT_EQ(convolution->operands, (std::vector<FusedOperand>{residual, bias}));
  EXPECT_EQ(residual.Bytes(64), 64 * image_bytes);
  EXPECT_EQ(bias.Bytes(64), size_t{64 * 2});
  options.residual = false;
  options.relu = false;
  EXPECT_THAT(ReadFusedConvolution(JsonOf(problem, options))->engine.Text(), HasSubstr("+bias"));
}

// `rows` has fewer images and fewer rows than `problem`, like the part of one rank if ranks divide
// a convolution.
TEST(FusedConvolution, ThePlanAtOtherExtentsIsTheOneThatTheLibraryBuilds) {
  int built = 0;
  for (const DataType type : {DataType::kFloat, DataType::kHalf}) {
    for (const auto& [operation, fuses] :
         {std::pair{Operation::kForward, true}, std::pair{Operation::kForward, false},
          std::pair{Operation::kBackwardData, false}}) {
      const ConvolutionProblem problem = Nhwc(type, operation);
      GraphOptions options;
      options.residual = options.bias = options.relu = fuses;
      ConvolutionProblem rows = problem;
      rows.n = 8;
      rows.x = {1, 5, 28};
      rows.pad = {0, 0, 1};
      SetPackedStrides(rows);
      const Graph graph(problem, options), other(rows, options);
      ASSERT_TRUE(graph.ok() && other.ok());
      for (const BackendDescriptor& plan : graph.HeuristicPlans(CUDNN_HEUR_MODE_A, 4)) {
        const auto read = ReadTemplate(RealCudnn(), plan.get());
        ASSERT_TRUE(read.ok()) << read.message();
        const auto& [engine, knobs, fusion] = *read->convolution.engine.graph();
        const auto native = other.Plan(static_cast<int>(engine), knobs);
        const auto plan_at = BuildPart(RealCudnn(), test::DescribedDevice(), *read, {rows});
        ASSERT_EQ(native.has_value(), plan_at.ok()) << read->convolution.engine;
        if (!native) continue;
        EXPECT_EQ(*PlanJson(RealCudnn(), plan_at->get()), *PlanJson(RealCudnn(), native->get()));
        ++built;
      }
    }
  }
  EXPECT_GE(built, 12);
}

TEST(FusedConvolution, NamesKnobsByNumber) {
  const Graph graph(Problem());
  const auto plan = graph.Plan(38, {{23, 0}, {2, 0}, {13, 2}, {14, 3}, {18, 0}, {22, 0}});
  ASSERT_TRUE(plan);
  const auto read = ReadTemplate(RealCudnn(), plan->get());
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->convolution.engine, "graph:38[k2=0,k13=2,k14=3,k18=0,k22=0,k23=0]");
  EXPECT_EQ(ReadTemplate(RealCudnn(), graph.Plan(38)->get())->convolution.engine, "graph:38");
}

TEST(FusedConvolution, EnginesSayWhatTheyAre) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardFilter}) {
    const Graph graph(Problem(operation));
    int deterministic = 0, nondeterministic = 0, tf32 = 0, fp32 = 0;
    for (int engine = 0; engine < graph.EngineCount(); ++engine) {
      const auto plan = graph.Plan(engine);
      if (!plan) continue;
      const auto read = ReadTemplate(RealCudnn(), plan->get());
      ASSERT_TRUE(read.ok()) << read.message();
      // None of this device's engines is FFT or Winograd.
      EXPECT_EQ(read->numeric, NumericClass::kDirect);
      ++(read->deterministic ? deterministic : nondeterministic);
      ++(read->notes.Has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ? tf32 : fp32);
    }
    EXPECT_GT(deterministic, 0);
    EXPECT_EQ(nondeterministic, operation == Operation::kForward ? 0 : 1);
    EXPECT_GT(tf32, 0);
    EXPECT_GT(fp32, 0);
  }
}

TEST(FusedConvolution, AnEngineOfHigherPrecisionMayTakeThePlaceOfALower) {
  const EngineNotes none,
      tf32 = {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, {}};
  const EngineNotes tensor_core = {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, {}};
  const EngineNotes winograd = {{CUDNN_NUMERICAL_NOTE_WINOGRAD}, {}};
  const EngineNotes random = {{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {}};
  EXPECT_TRUE(IsExactAs(none, tf32));
  EXPECT_FALSE(IsExactAs(tf32, none));
  EXPECT_TRUE(IsExactAs(tensor_core, none));
  EXPECT_FALSE(IsExactAs(winograd, tf32));
  EXPECT_FALSE(IsExactAs(random, tf32));
  EXPECT_TRUE(IsExactAs(none, random));
  const EngineNotes strict = {{CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, {}};
  const EngineNotes strict_tf32 = {
      {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
       CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP},
      {}};
  EXPECT_TRUE(IsExactAs(strict, none));
  EXPECT_FALSE(IsExactAs(none, strict));
  EXPECT_TRUE(IsExactAs(strict, strict_tf32));
  EXPECT_FALSE(IsExactAs(tf32, strict_tf32));
}

TEST(FusedConvolution, PaddingMayDifferBehind) {
  for (const Operation operation : test::kOperations) {
    ConvolutionProblem problem = Problem(operation);
    problem.extra_pad = {0, 1, -1};
    SetPackedStrides(problem);
    const std::string json = JsonOf(problem);
    const auto convolution = ReadFusedConvolution(json);
    ASSERT_TRUE(convolution.ok()) << convolution.message();
    EXPECT_EQ(convolution->problem, problem) << Describe(convolution->problem);
    // If both `pad` and `pad_lower` are present, it is not known which one counts.
    EXPECT_THAT(Refusal(With(json, "\"pad_lower\":", "\"pad\":[1,1],\"pad_lower\":")),
                HasSubstr("the padding"));
  }
}

TEST(FusedConvolution, OperationsBeforeTheConvolutionAreLeftAlone) {
  const std::string json =
      With(JsonOf(Problem()), "\"nodes\":[{",
           "\"nodes\":[{\"operation\":\"CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR\"},{");
  EXPECT_EQ(Refusal(json), "operations before the convolution");
}

TEST(FusedConvolution, OperationsBehindItThatAreNotPointwiseAreNamed) {
  std::string json = With(JsonOf(Problem()), "\"finalizeMode\":\"CONV_FORWARD\"",
                          "\"finalizeMode\":\"SCALE_BIAS_ADD_RELU_CONV_STATS\"");
  const size_t end = json.find("}]", json.find("\"nodes\":["));
  ASSERT_NE(end, std::string::npos);
  json.insert(end + 1, ",{\"operation\":\"CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR\"}");
  EXPECT_THAT(Refusal(json), HasSubstr("CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR"));
}

TEST(FusedConvolution, ABatchInsideAnImageIsLeftAlone) {
  const std::string json = JsonOf(Problem());
  // The tensors lie in memory in the order c, h, w, n.
  const std::string strided = With(json, "\"dim\":[64,32,28,28],\"stride\":[25088,784,28,1]",
                                   "\"dim\":[64,32,28,28],\"stride\":[1,50176,1792,64]");
  EXPECT_THAT(Refusal(strided), HasSubstr("not the leading extent"));
}

TEST(FusedConvolution, WhateverIsUnfamiliarIsLeftAlone) {
  const std::string json = JsonOf(Problem());
  ASSERT_EQ(Refusal(json), "read");
  const std::pair<const char*, const char*> changes[] = {
      {"\"schemaVersion\":4", "\"schemaVersion\":5"},
      {"\"schemaVersion\":4,", ""},
      {"{\"cudnnVersion\"", "{\"dynamic\":true,\"cudnnVersion\""},
      {"\"finalizeMode\":\"CONV_FORWARD\"", "\"finalizeMode\":\"MATMUL\""},
      {"\"finalizeMode\"", "\"isDynamicShapeEnabled\":true,\"finalizeMode\""},
      {"CONVOLUTION_FORWARD_DESCRIPTOR", "MATMUL_DESCRIPTOR"},
      {"CUDNN_DATA_FLOAT", "CUDNN_DATA_INT8"},
      {"CUDNN_DATA_FLOAT", "CUDNN_DATA_HALF"},
      {"\"isByValue\":false", "\"isByValue\":true"},
      {"\"isVirtual\":false", "\"isVirtual\":true"},
      {"\"vectCount\":1", "\"vectCount\":4"},
      {"\"reordering\":\"CUDNN_TENSOR_REORDERING_NONE\"", "\"reordering\":\"INT8x32\""},
      {"\"isVirtual\"", "\"raggedOffset\":\"7\",\"isVirtual\""},
      {"\"name\":\"119\"", "\"name\":\"filter\""},
      {"\"name\":\"119\"", "\"name\":\"121\""},
      {"\"X\":\"120\"", "\"X\":\"7\""},
      {"\"X\":\"120\"", "\"X\":\"121\""},
      {"\"dim\":[64,32,28,28]", "\"dim\":[64,32,28]"},
      {"\"dim\":[64,32,28,28]", "\"dim\":[63,32,28,28]"},
      {"\"dim\":[64,32,28,28]", "\"dim\":[64,-1,28,28]"},
      {"\"dim\":[64,32,28,28]", "\"dim\":[9223372036854775807,32,28,28]"},
      {"\"stride\":[288,9,3,1]", "\"stride\":[300,9,3,1]"},
      {"\"dilation\":[1,1]", "\"dilation\":[1000000000,1]"},
      {"\"pad\":[1,1]", "\"pad\":[1,1,1]"},
      {"\"nodes\":[{", "\"nodes\":[{\"scale\":2,"},
      {"\"mode\":\"CUDNN_CROSS_CORRELATION\"", "\"mode\":\"DECONVOLUTION\""},
      {"CUDNN_KNOB_TYPE_", "CUDNN_KNOB_TYPE_NEW_"},
      {"\"engineId\"", "\"program\":\"…\",\"engineId\""},
  };
  for (const auto& [from, to] : changes) {
    EXPECT_NE(Refusal(With(json, from, to)), "read") << from << " -> " << to;
  }
  for (size_t length = 0; length < json.size(); length += 7) {
    EXPECT_NE(Refusal(json.substr(0, length)), "read") << length;
  }
}

TEST(FusedConvolution, TensorsBeyondTwoToThe31AreRead) {
  ConvolutionProblem problem = Problem();
  problem.n = 100000;
  problem.c = 64;
  problem.x = {1, 56, 56};
  SetPackedStrides(problem);
  ASSERT_GT(int64_t{problem.n} * problem.x_strides[0], int64_t{1} << 34);
  const auto convolution = ReadFusedConvolution(JsonOf(problem));
  ASSERT_TRUE(convolution.ok()) << convolution.message();
  EXPECT_EQ(convolution->problem, problem);
}

TEST(PlanWords, NameOperationsAndExtents) {
  GraphOptions options;
  options.bias = options.relu = true;
  const ConvolutionProblem problem = Nhwc(DataType::kHalf);
  const std::string json = JsonOf(problem, options);
  EXPECT_EQ(PlanWords(json), "convolution_forward 64x32x28x28 by 64x32x3x3 half + add + relu_fwd");
  EXPECT_EQ(PlanWords(JsonOf(Problem(Operation::kBackwardFilter))),
            "convolution_backward_filter 64x32x28x28 by 64x32x3x3 float");
  // An operation that generates statistics has no mode, and PlanWords does not name its tensors.
  const std::string statistics = With(
      json, "{\"operation\":\"CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR\",\"pointwiseMode\"",
      "{\"operation\":\"CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR\",\"genStatsMode\"");
  EXPECT_EQ(PlanWords(statistics),
            "convolution_forward 64x32x28x28 by 64x32x3x3 half + gen_stats + relu_fwd");
  EXPECT_THAT(Refusal(statistics), HasSubstr("GEN_STATS"));
}

// PlanWords accepts any text, because its result appears only in messages.
TEST(PlanWords, AreOfAnyText) {
  const std::string json = JsonOf(Problem());
  for (size_t length = 0; length < json.size(); length += 11) {
    EXPECT_EQ(PlanWords(json.substr(0, length)), "a plan of the graph API") << length;
  }
  for (const char* text : {"", "null", "[]", "{}", "{\"operationGraph\":1}",
                           "{\"operationGraph\":{\"tensors\":[],\"nodes\":[]}}",
                           "{\"operationGraph\":{\"tensors\":[1],\"nodes\":[1]}}",
                           "{\"operationGraph\":{\"tensors\":[],\"nodes\":[{\"operation\":7}]}}"}) {
    EXPECT_EQ(PlanWords(text), "a plan of the graph API") << text;
  }
}

TEST(PlanEdit, ChangesTheBatchAndNothingElse) {
  // There are 64 images and 64 filters, so the filter's leading extent looks like a batch.
  const ConvolutionProblem problem = Problem();
  const std::string json = JsonOf(problem);
  const auto convolution = ReadFusedConvolution(json);
  ASSERT_TRUE(convolution.ok());
  const auto edited = EditPlan(json, *convolution, test::AtBatch(*convolution, 7));
  ASSERT_TRUE(edited.ok()) << edited.message();
  std::string expected = With(json, "\"dim\":[64,32,28,28]", "\"dim\":[7,32,28,28]");
  expected = With(expected, "\"dim\":[64,64,28,28]", "\"dim\":[7,64,28,28]");
  EXPECT_EQ(*edited, expected);
}

TEST(PlanEdit, ChangesTheScales) {
  GraphOptions options;
  options.alpha = 0.5;
  const std::string json = JsonOf(Problem(Operation::kBackwardFilter), options);
  const auto convolution = ReadFusedConvolution(json);
  const auto edited = EditPlan(json, *convolution, test::AtBatch(*convolution, 8, 0.5, 1));
  ASSERT_TRUE(edited.ok()) << edited.message();
  const auto read = ReadFusedConvolution(*edited);
  EXPECT_EQ(read->alpha, 0.5);
  EXPECT_EQ(read->beta, 1);
  EXPECT_EQ(read->problem.n, 8);
}

// With one image and one element per channel, a residual has the extents of a bias.
TEST(PlanEdit, TellsAResidualFromABiasAtASingleImage) {
  ConvolutionProblem problem = Nhwc(DataType::kHalf);
  problem.x = problem.w = {1, 3, 3};
  problem.pad = {};
  SetPackedStrides(problem);
  int read = 0;
  for (const bool bias : {false, true}) {
    GraphOptions options;
    options.residual = options.relu = true;
    options.bias = bias;
    const std::string json = JsonOf(problem, options);
    if (json.empty()) continue;  // the library has no plan for this problem
    ++read;
    const auto convolution = ReadFusedConvolution(json);
    ASSERT_TRUE(convolution.ok()) << convolution.message();
    const auto edited = EditPlan(json, *convolution, test::AtBatch(*convolution, 1));
    ASSERT_TRUE(edited.ok()) << edited.message();
    const auto again = ReadFusedConvolution(*edited, &*convolution);
    ASSERT_TRUE(again.ok()) << again.message();
    EXPECT_EQ(again->operands, convolution->operands);
    ASSERT_EQ(again->operands.size(), bias ? 2u : 1u);
    EXPECT_EQ(again->operands[0].uid, test::kUidResidual);
    EXPECT_TRUE(again->operands[0].is_batched());
    EXPECT_EQ(again->problem.n, 1);
  }
  EXPECT_GT(read, 0);
}

TEST(PlanEdit, AnotherOrderOfMembersIsNotEdited) {
  const std::string json = JsonOf(Problem());
  const auto convolution = ReadFusedConvolution(json);
  const std::string spaced = With(json, "\"dim\":[", "\"dim\": [");
  ASSERT_TRUE(ReadFusedConvolution(spaced).ok());
  EXPECT_FALSE(EditPlan(spaced, *convolution, test::AtBatch(*convolution, 7)).ok());
}

TEST(PlanEdit, ExchangesTheEngine) {
  const Graph graph(Problem());
  const auto original = ReadTemplate(RealCudnn(), graph.Plan(38, {{2, 1}})->get());
  ASSERT_TRUE(original.ok());
  const auto other = WithOtherEngine(RealCudnn(), test::DescribedDevice(), *original, "graph:28");
  ASSERT_TRUE(other.ok()) << other.message();
  EXPECT_EQ(other->convolution.engine, "graph:28");
  EXPECT_EQ(other->convolution.problem, original->convolution.problem);
  const auto back =
      WithOtherEngine(RealCudnn(), test::DescribedDevice(), *other, original->convolution.engine);
  ASSERT_TRUE(back.ok()) << back.message();
  EXPECT_EQ(back->convolution.engine, original->convolution.engine);
  for (const char* none : {"graph:", "graph:28+relu", "graph:28[k99=1]", "legacy:1"}) {
    EXPECT_FALSE(WithOtherEngine(RealCudnn(), test::DescribedDevice(), *other, none).ok()) << none;
  }
}

}  // namespace
}  // namespace ucudnn::cudnn
