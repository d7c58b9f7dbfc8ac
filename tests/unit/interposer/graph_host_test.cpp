// Tests the graph API on the stand-in's real arithmetic. A program makes operation graphs, asks
// heuristics, builds plans and runs them. It gets the results of the undivided plans, in less
// workspace.
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <string>

#include "convolution/partial_sums.h"
#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* name;
  Operation operation;
  GraphOptions options = {};
  DataType type = DataType::kFloat;
};
void PrintTo(const Case& given, std::ostream* out) { *out << given.name; }

class GraphHost : public ::testing::TestWithParam<Case> {};

// A program with a case's problem as three graphs: undivided, of kPart images, and through the
// interposer.
struct CaseProgram : Program {
  CaseProgram(const Case& of, const Options& options,
              decltype(cudnn::Functions::cudnnBackendExecute) execute = nullptr)
      : Program(options, execute),
        problem(Problem(of.operation, of.type)),
        plain(problem, of.options, real, {handle}),
        plain_part(WithBatch(problem, kPart), of.options, real, {handle}),
        graph(problem, of.options, hooked, {handle}) {}

  // Stores short times for pieces of kPart images of `engine`. `compared` says whether the rows
  // count as compared. Returns false if the engine does not support the problem or the pieces, or
  // if a piece needs more workspace than the undivided convolution.
  bool StorePieces(int engine, bool compared) {
    const auto whole = plain.Plan(engine), piece = plain_part.Plan(engine);
    if (!whole || !piece) return false;
    const auto read = cudnn::ReadTemplate(real, whole->get());
    EXPECT_TRUE(read.ok()) << read.message();
    const size_t need = *cudnn::PlanWorkspace(real, whole->get());
    const size_t part_need = *cudnn::PlanWorkspace(real, piece->get());
    const size_t sum_bytes = SumsPartials(problem) ? PartialSumBytes(problem) : 0;
    if (part_need + sum_bytes > need) return false;
    StoreRows(store, real, read->convolution.problem,
              {{{read->convolution.engine, problem.n, 100, need, true}, 5, compared},
               {{read->convolution.engine, kPart, 1, part_need, true}, 5, compared},
               {{kPartialSum, kPartialSumBatch, 1, sum_bytes, true}, 5, compared}});
    return true;
  }

  const ConvolutionProblem problem;
  const test::Graph plain, plain_part, graph;
};

// Data are whole numbers, so a wrong result is off by 1 or more. An engine that transforms its data
// may be off by less than 0.01.
void ExpectSame(const Values& got, const Values& expected, const EngineId& who) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 0.01) << who << " at " << i;
  }
}

TEST_P(GraphHost, EveryPlanIsRightInsideTheLimit) {
  const ConvolutionProblem problem = Problem(GetParam().operation, GetParam().type);
  const GraphOptions& graph_options = GetParam().options;
  int plans = 0;
  for (int engine = 0; engine < kMostEngines; ++engine) {
    for (const int part : {0, 1, 2, 4}) {
      // For part = 0 the limit is 0. For part = 1, 2 and 4 it is the undivided plan's need divided
      // by `part`.
      Program real{Options()};
      const test::Graph plain(problem, graph_options, real.real, {real.handle});
      const auto whole = plain.Plan(engine);
      if (!whole) continue;
      const size_t need = *cudnn::PlanWorkspace(real.real, whole->get());
      const Values expected = real.Run(real.real, problem, whole->get(), graph_options);
      Options options;
      options.workspace_limit = part == 0 ? 0 : need / part;
      Program program(options);
      const test::Graph graph(problem, graph_options, program.hooked, {program.handle});
      const auto plan = graph.Plan(engine);
      ASSERT_TRUE(plan);
      const std::string who = "engine " + std::to_string(engine) + " within " +
                              std::to_string(*options.workspace_limit);
      for (int call = 0; call < 2; ++call) {
        ExpectSame(program.Run(program.hooked, problem, plan->get(), graph_options), expected, who);
      }
      ++plans;
      const auto report = program.Report();
      ASSERT_EQ(report["kernels"].size(), 1u) << report.dump(1);
      const auto& kernel = report["kernels"][0];
      EXPECT_EQ(kernel["api"], "graph");
      EXPECT_EQ(kernel["calls"], 2);
      // If a plan cannot be brought under the limit, the report says so.
      const size_t promised = *cudnn::PlanWorkspace(program.hooked, plan->get());
      EXPECT_EQ(kernel["workspace_bytes"], promised);
      if (promised > *options.workspace_limit) {
        EXPECT_EQ(promised, need);
        EXPECT_THAT(report["fallbacks"].dump(), HasSubstr("cannot be brought under")) << who;
      }
      int64_t images = 0;
      for (const auto& run : kernel["plan"]) {
        images += run["micro_batch"].get<int64_t>() * run["count"].get<int64_t>();
      }
      // The report on a tiled plan counts each image once for each of the image's tiles.
      const bool tiled = kernel["reason"].get<std::string>().find(" tiles") != std::string::npos;
      EXPECT_EQ(tiled ? images % problem.n : images, tiled ? 0 : problem.n) << kernel.dump(1);
    }
  }
  EXPECT_GT(plans, 0);
}

// The store says that pieces of two images are fast, so every engine is divided.
TEST_P(GraphHost, PiecesComputeWhatTheWholeDoes) {
  const GraphOptions& graph_options = GetParam().options;
  const ConvolutionProblem problem = Problem(GetParam().operation, GetParam().type);
  int plans = 0;
  for (int engine = 0; engine < kMostEngines; ++engine) {
    CaseProgram program(GetParam(), test::Planned());
    const auto whole = program.plain.Plan(engine);
    if (!whole) continue;
    ASSERT_TRUE(program.plain_part.Plan(engine));
    const auto read = cudnn::ReadTemplate(program.real, whole->get());
    ASSERT_TRUE(read.ok()) << read.message();
    // An engine that transforms its data and rounds them to bf16 is too inexact to show whether its
    // pieces are right. ucudnn trusts no pieces of such an engine.
    if (problem.type == DataType::kBfloat16 && read->numeric != NumericClass::kDirect) {
      continue;
    }
    if (!program.StorePieces(engine, false)) continue;
    const Values expected = program.Run(program.real, problem, whole->get(), graph_options);
    const auto plan = program.graph.Plan(engine);
    ASSERT_TRUE(plan);
    ExpectSame(program.Run(program.hooked, problem, plan->get(), graph_options), expected,
               read->convolution.engine);
    const auto report = program.Report();
    EXPECT_THAT(report["fallbacks"].dump(), "[]");
    const auto& runs = report["kernels"][0]["plan"];
    ASSERT_EQ(runs.size(), 1u) << report.dump(1);
    EXPECT_EQ(runs[0]["engine"], read->convolution.engine.Text());
    EXPECT_EQ(runs[0]["micro_batch"], kPart);
    EXPECT_EQ(runs[0]["count"], problem.n / kPart);
    ++plans;
  }
  // The processor decides which engines the stand-in has, and whether their pieces need less
  // workspace.
  EXPECT_GE(plans, SumsPartials(problem) ? 1 : 2);
}

// Returns the workspace that the engine configuration of a finalized plan reports.
std::optional<int64_t> ConfigurationWorkspace(const cudnn::Functions& functions,
                                              cudnnBackendDescriptor_t plan) {
  auto configuration =
      cudnn::BackendDescriptor::Create(functions, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  cudnnBackendDescriptor_t filled = configuration->get();
  int64_t count = 0, bytes = -1;
  if (functions.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                         &filled) != CUDNN_STATUS_SUCCESS ||
      functions.cudnnBackendGetAttribute(filled, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &count,
                                         &bytes) != CUDNN_STATUS_SUCCESS) {
    return std::nullopt;
  }
  return bytes;
}

TEST_P(GraphHost, AConfigurationAnswersWhatItsPlanDoes) {
  const ConvolutionProblem problem = Problem(GetParam().operation, GetParam().type);
  const GraphOptions& graph_options = GetParam().options;
  constexpr int kMost = 8;
  std::vector<size_t> needs;
  {
    Program real{Options()};
    const test::Graph plain(problem, graph_options, real.real, {real.handle});
    for (const auto& plan : plain.HeuristicPlans(CUDNN_HEUR_MODE_A, kMost)) {
      needs.push_back(*cudnn::PlanWorkspace(real.real, plan.get()));
    }
  }
  ASSERT_FALSE(needs.empty());
  ASSERT_GT(needs[0], 0u);
  Options options;
  options.tuning.on = false;
  options.workspace_limit = needs[0] - 1;
  Program program(options);
  const test::Graph hooked(problem, graph_options, program.hooked, {program.handle});
  const auto plans = hooked.HeuristicPlans(CUDNN_HEUR_MODE_A, kMost);
  ASSERT_EQ(plans.size(), needs.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    const size_t promised = *cudnn::PlanWorkspace(program.hooked, plans[i].get());
    const auto told = ConfigurationWorkspace(program.hooked, plans[i].get());
    ASSERT_TRUE(told);
    EXPECT_EQ(static_cast<size_t>(*told), promised) << "rank " << i;
    // Another engine brings the first plan under the limit. The other plans were not measured and
    // keep their engines.
    if (i == 0) {
      EXPECT_LE(promised, *options.workspace_limit);
    } else {
      EXPECT_EQ(promised, needs[i]) << "rank " << i;
    }
  }
}

// With UCUDNN_CHECK=1 correct pieces pass, and wrong ones are found, reported and never used again.
// The program gets the undivided result either way.
TEST_P(GraphHost, CheckedCallsGiveTheUndividedResult) {
  const GraphOptions& graph_options = GetParam().options;
  for (const bool wrong : {false, true}) {
    SCOPED_TRACE(wrong ? "wrong" : "right");
    Options options = test::Planned();
    options.check = true;
    CaseProgram program(GetParam(), options, wrong ? SkipPieces : nullptr);
    // Finds a direct engine whose pieces fit the workspace of its undivided plan. The results of
    // direct engines are exact. The store says that the pieces were compared before, so only
    // UCUDNN_CHECK can still find them wrong.
    std::optional<cudnn::BackendDescriptor> whole;
    int engine = -1;
    for (bool found = false; !found;) {
      ASSERT_LT(++engine, kMostEngines);
      whole = program.plain.Plan(engine);
      if (!whole) continue;
      const auto read = cudnn::ReadTemplate(program.real, whole->get());
      found =
          read.ok() && read->numeric == NumericClass::kDirect && program.StorePieces(engine, true);
    }
    const ConvolutionProblem& problem = program.problem;
    const Values expected = program.Run(program.real, problem, whole->get(), graph_options);
    const auto plan = program.graph.Plan(engine);
    ASSERT_TRUE(plan);
    for (int call = 0; call < 3; ++call) {
      ExpectSame(program.Run(program.hooked, problem, plan->get(), graph_options), expected,
                 "engine " + std::to_string(engine));
    }
    const auto report = program.Report();
    EXPECT_EQ(report["kernels"][0]["calls"], 3);
    if (wrong) {
      EXPECT_THAT(report["fallbacks"].dump(), HasSubstr("UCUDNN_CHECK found the plan wrong"));
    } else {
      EXPECT_EQ(report["fallbacks"].dump(), "[]");
    }
  }
}

int& Executed() {
  static int executed = 0;
  return executed;
}
cudnnStatus_t CountExecution(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack) {
  ++Executed();
  return test::StandInGraphs().cudnnBackendExecute(handle, plan, pack);
}

// Partial sums lie in the workspace, so the workspace must be aligned as the plan's tensors are
// declared: here to 32 bytes, the most that PyTorch declares. In a less aligned workspace a call
// runs undivided. The next call in an aligned workspace is divided again.
TEST(GraphPartials, LieAsAlignedAsThePlanDeclares) {
  const ConvolutionProblem problem = Problem(Operation::kBackwardFilter, DataType::kHalf);
  GraphOptions graph_options;
  graph_options.x_alignment = graph_options.w_alignment = graph_options.y_alignment = 32;
  int engine = -1;
  const Options options = test::Planned();
  test::MemoryStore store;
  Values expected;
  {
    Program real(options, nullptr, &store);
    const test::Graph whole(problem, graph_options, real.real, {real.handle});
    const test::Graph piece(WithBatch(problem, kPart), graph_options, real.real, {real.handle});
    size_t need = 0, divided = 1;
    while (divided > need) {
      ASSERT_LT(++engine, kMostEngines);
      const auto plan = whole.Plan(engine), of_piece = piece.Plan(engine);
      if (!plan || !of_piece) continue;
      need = *cudnn::PlanWorkspace(real.real, plan->get());
      divided = *cudnn::PlanWorkspace(real.real, of_piece->get()) + PartialSumBytes(problem);
      expected = real.Run(real.real, problem, plan->get(), graph_options);
    }
    real.Measured(whole, engine, 100);
    real.Measured(piece, engine, 0.001);
    const MicroConfiguration sum = {kPartialSum, kPartialSumBatch, 0.001, PartialSumBytes(problem),
                                    true};
    ConvolutionProblem as_declared = problem;
    as_declared.alignment = 32;
    StoreRows(store, real.real, as_declared, {{sum, 5, true}});
  }
  Program program(options, CountExecution, &store);
  const test::Graph hooked(problem, graph_options, program.hooked, {program.handle});
  const auto plan = hooked.Plan(engine);
  ASSERT_TRUE(plan);
  const size_t promised = *cudnn::PlanWorkspace(program.hooked, plan->get());
  const auto executions = [&] {
    const auto report = program.Report();
    EXPECT_EQ(report["kernels"][0]["plan"][0]["micro_batch"], kPart) << report;
    EXPECT_EQ(report["fallbacks"].dump(), "[]");
    return report["kernels"][0]["calls"].get<int>();
  };
  const auto run = [&](size_t beyond) {
    Operands operands(problem, graph_options, promised);
    Executed() = 0;
    EXPECT_EQ(operands.Execute(program.hooked, program.handle, plan->get(), beyond),
              CUDNN_STATUS_SUCCESS);
    ExpectSame(operands.Output(), expected, std::to_string(beyond));
    return Executed();
  };
  EXPECT_EQ(run(0), problem.n / kPart);
  EXPECT_EQ(run(16), 1);
  EXPECT_EQ(run(0), problem.n / kPart);
  EXPECT_EQ(executions(), 3);
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, GraphHost,
    ::testing::Values(
        Case{"forward", Operation::kForward}, Case{"fused", Operation::kForward, Fused(true)},
        Case{"scale", Operation::kForward, Scaled()},
        Case{"scale_bias_relu_fp16", Operation::kForward, ScaledBiasRelu(), DataType::kHalf},
        Case{"backward_data", Operation::kBackwardData},
        Case{"backward_data_drelu", Operation::kBackwardData, ReluGradient()},
        Case{"backward_data_drelu_fp16", Operation::kBackwardData, ReluGradient(), DataType::kHalf},
        Case{"backward_filter", Operation::kBackwardFilter},
        Case{"backward_filter_fp16", Operation::kBackwardFilter, {}, DataType::kHalf},
        Case{"backward_filter_bf16", Operation::kBackwardFilter, {}, DataType::kBfloat16}),
    [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace ucudnn::interposer
