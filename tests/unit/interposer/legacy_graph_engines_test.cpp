// Tests a program of the legacy API whose calls run engines of the graph API, on the stand-in's
// real arithmetic: the program's results, what the program is told, and when its own algorithms
// run.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "cudnn/problem_graph.h"
#include "legacy_program.h"
#include "tests/support/engines.h"

namespace ucudnn::interposer {
namespace {

using test::kOperations;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// An engine with oneDNN's blocked layouts and a workspace for a quarter of the batch. The legacy
// API has no such engine.
constexpr char kEngine[] = "graph:1[k25=2]";
int executions = 0;
bool idle = false;  // graph engines report success but compute nothing
int idle_at = 0;    // the execution (from 1) that computes nothing; 0: none
bool failing = false;
std::chrono::milliseconds graph_takes{0};  // the least time of an execution

cudnnStatus_t CountedExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                             cudnnBackendDescriptor_t pack) {
  ++executions;
  std::this_thread::sleep_for(graph_takes);
  if (failing) return CUDNN_STATUS_EXECUTION_FAILED;
  const bool skipped = idle || executions == idle_at;
  return skipped ? CUDNN_STATUS_SUCCESS : cudnnBackendExecute(handle, plan, pack);
}

cudnn::Functions CountedGraphs() {
  cudnn::Functions functions = WrongStandIn();
  const cudnn::Functions graphs = test::StandInGraphs();
#define TAKE(name) functions.name = graphs.name;
  UCUDNN_CUDNN_GRAPH_FUNCTIONS(TAKE)
#undef TAKE
  functions.cudnnBackendExecute = CountedExecute;
  return functions;
}

struct GraphProgram : Program {
  GraphProgram(Operation of, const Options& options)
      : Program(of, options, CountedGraphs()), operation(of) {
    executions = idle_at = 0;
    idle = failing = false;
    graph_takes = {};
  }
  // The store says that algorithm 0 takes 100 ms, and the graph engine 1 ms.
  explicit GraphProgram(Operation of, bool verified = true) : GraphProgram(of, Planned()) {
    Store(0, kImages, 100);
    StoreGraph(kImages, 1, verified);
  }

  size_t GraphNeed(int images) {
    const ConvolutionProblem part = test::WithBatch(Problem(operation), images);
    const auto graph = cudnn::ProblemGraph::Create(functions, {handle(), nullptr}, part);
    EXPECT_TRUE(graph.ok()) << graph.message();
    const auto engine = graph->Named(kEngine);
    EXPECT_TRUE(engine.ok()) << engine.message();
    cudnn::GraphEngines engines(functions, {handle(), nullptr}, {&*engine});
    return test::Choices(engines, part).at(0).workspace_bytes;
  }
  void StoreGraph(int images, double time_ms, bool verified = true) {
    StoreRow({{kEngine, images, time_ms, GraphNeed(images), true}, 5, verified});
  }
  // Returns the number of executions of graph engines in one call.
  int Executions(int algorithm = 0, size_t bytes = kWorkspace) {
    executions = 0;
    ExpectRight(algorithm, bytes);
    return executions;
  }
  nlohmann::json Kernel() { return ReportJson()["kernels"][0]; }

  // Returns the number of executions of graph engines in a call that is captured.
  int Captured(test::HandleStream& stream, const cudnn::ConvolutionCall& call) {
    executions = 0;
    stream.Capture([&] { EXPECT_EQ(interposer.legacy().Convolve(call), CUDNN_STATUS_SUCCESS); });
    return executions;
  }

  const Operation operation;
};

TEST(LegacyGraphEngines, ServeWhatTheyAreFasterAt) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    GraphProgram program(operation);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(program.Executions(), 1);
    EXPECT_THAT(TheCalls(), IsEmpty());
    EXPECT_EQ(program.Kernel()["api"], "legacy");
    EXPECT_EQ(program.Kernel()["plan"][0]["engine"], kEngine);
    EXPECT_EQ(program.Kernel()["plan"][0]["workspace_bytes"], program.GraphNeed(kImages));
    EXPECT_EQ(program.Kernel()["undivided"]["engine"], "legacy:0");
    EXPECT_EQ(program.Fallbacks(), "[]");
  }
}

TEST(LegacyGraphEngines, ServeInPieces) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    GraphProgram program(operation, Planned());
    program.Store(0, kImages, 100);
    program.StoreGraph(kImages, 50);
    program.StoreGraph(2, 1);
    EXPECT_EQ(program.Executions(), kImages / 2);
    EXPECT_THAT(TheCalls(), IsEmpty());
  }
}

// The report shows separately what a better engine gains and what division gains.
TEST(LegacyGraphEngines, AndDivisionGainApartInTheReport) {
  struct Case {
    const char* what;
    double graph_ms, graph_piece_ms, legacy_piece_ms;  // 0: not measured
    double best_ms, total_ms;
    const char* best;
  };
  const Case cases[] = {
      {"a better engine", 60, 0, 0, 60, 60, kEngine},
      {"division", 0, 0, 15, 90, 15.0 * kImages / 2, "legacy:1"},
      {"both", 60, 10, 0, 60, 10.0 * kImages / 2, kEngine},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    GraphProgram program(Operation::kForward, Planned());
    program.Store(0, kImages, 100);
    program.Store(1, kImages, 90);
    if (one.graph_ms > 0) program.StoreGraph(kImages, one.graph_ms);
    if (one.graph_piece_ms > 0) program.StoreGraph(2, one.graph_piece_ms);
    if (one.legacy_piece_ms > 0) program.Store(1, 2, one.legacy_piece_ms);
    program.ExpectRight(0);
    const nlohmann::json kernel = program.Kernel();
    EXPECT_EQ(kernel["asked"], "legacy:0");
    EXPECT_EQ(kernel["undivided"]["engine"], "legacy:1") << kernel.dump(1);
    EXPECT_EQ(kernel["undivided"]["total_ms"], 90);
    EXPECT_EQ(kernel["best_undivided"]["engine"], one.best);
    EXPECT_EQ(kernel["best_undivided"]["total_ms"], one.best_ms);
    EXPECT_EQ(kernel["total_ms"], one.total_ms) << kernel.dump(1);
  }
}

TEST(LegacyGraphEngines, AreNotWhatACallerIsToldOf) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    Options options = Planned();
    options.workspace_limit = Program::kWorkspace;
    GraphProgram program(operation, options);
    program.Store(0, kImages, 100);
    program.StoreGraph(kImages, 1);
    const size_t need = program.GraphNeed(kImages);
    const auto told = program.Gotten();
    ASSERT_TRUE(told);
    ASSERT_THAT(*told, SizeIs(1));
    EXPECT_EQ(told->front().algorithm, 0);
    EXPECT_EQ(told->front().workspace_bytes, need);
    EXPECT_EQ(told->front().time_ms, 1);
    EXPECT_EQ(program.Executions(0, need), 1);
    // With less workspace the program's own algorithm computes the call.
    EXPECT_EQ(program.Executions(0, need - 1), 0);
    EXPECT_THAT(TheCalls(), SizeIs(operation == Operation::kBackwardData ? 0 : 1));
    EXPECT_EQ(program.Executions(0, 0), 0);
  }
}

TEST(LegacyGraphEngines, KeepOutWhereTheUserWantsLegacyOnes) {
  Options options = Planned();
  options.engines = EngineSet::kLegacy;
  GraphProgram program(Operation::kForward, options);
  program.Store(0, kImages, 100);
  program.StoreGraph(kImages, 1);
  EXPECT_EQ(program.Executions(), 0);
  EXPECT_THAT(TheCalls(), SizeIs(1));
}

TEST(LegacyGraphEngines, AloneDivideWhereTheUserWantsGraphOnes) {
  Options options = Planned();
  options.engines = EngineSet::kGraph;
  GraphProgram program(Operation::kForward, options);
  program.Store(0, kImages, 100);
  program.Store(0, 2, 0.1);
  EXPECT_EQ(program.Executions(), 0);
  EXPECT_THAT(TheCalls(), SizeIs(1)) << "undivided";
  GraphProgram other(Operation::kForward, options);
  other.Store(0, kImages, 100);
  other.Store(0, 2, 0.1);
  other.StoreGraph(kImages, 50);
  other.StoreGraph(4, 1);
  EXPECT_EQ(other.Executions(), 2);
}

// The caller named a deterministic algorithm, so a nondeterministic engine does not replace it.
TEST(LegacyGraphEngines, AreNoLessDeterministicThanTheCallersAlgorithm) {
  GraphProgram program(Operation::kForward, Planned());
  program.Store(0, kImages, 100);
  program.StoreRow({{kEngine, kImages, 1, program.GraphNeed(kImages), false}, 5, true});
  EXPECT_EQ(program.Executions(), 0);
}

TEST(LegacyGraphEngines, AreComparedWithTheUndividedOnce) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    GraphProgram program(operation, false);
    const int compared = operation == Operation::kBackwardFilter ? 2 : 1;  // with beta 0 and 1
    EXPECT_EQ(program.Executions(), compared + 1) << "compared, then used";
    EXPECT_EQ(program.Executions(), 1);
    for (const planning::Measurement& row : program.Stored()) {
      EXPECT_TRUE(row.verified || row.micro.engine != kEngine);
    }
  }
}

TEST(LegacyGraphEngines, FoundWrongAreNeverUsed) {
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    GraphProgram program(operation, false);
    idle = true;
    for (int i = 0; i < 2; ++i) program.ExpectRight();
    EXPECT_EQ(program.Executions(), 0);
    EXPECT_THAT(program.Fallbacks(), HasSubstr("a graph engine is wrong and never used"));
  }
}

// The engine has two plans, one that replaces the gradient and one that adds to it. Both are
// compared with the undivided algorithm.
TEST(LegacyGraphEngines, ThatDoNotAddAreNeverUsed) {
  GraphProgram program(Operation::kBackwardFilter, false);
  idle_at = 2;  // the plan that adds, compared after the one that replaces
  EXPECT_EQ(program.Executions(), 2) << "compared";
  EXPECT_EQ(program.Executions(), 0);
  EXPECT_THAT(program.Fallbacks(), HasSubstr("a graph engine is wrong and never used"));
}

TEST(LegacyGraphEngines, ThatFailLeaveTheCallToTheLegacyEngine) {
  GraphProgram program(Operation::kForward);
  EXPECT_EQ(program.Executions(), 1);
  failing = true;
  EXPECT_EQ(program.Executions(), 1);
  EXPECT_EQ(program.Executions(), 0) << "barred";
}

TEST(LegacyGraphEngines, AreNotMadeReadyInsideACapture) {
  GraphProgram program(Operation::kForward);
  test::HandleStream stream(program.interposer, program.handle());
  TheCalls().clear();
  EXPECT_EQ(program.Captured(stream, program.Call()), 0);
  EXPECT_THAT(TheCalls(), SizeIs(1));
  EXPECT_EQ(program.interposer.legacy().Convolve(program.Call()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(executions, 1);
  EXPECT_EQ(program.Captured(stream, program.Call()), 1) << "it ran outside";
}

// A call with beta = 1 uses a plan that adds to the gradient. Only the plan that replaces the
// gradient has run before.
TEST(LegacyGraphEngines, ThatAddAreCapturedOnlyAfterTheyRan) {
  const float one = 1;
  GraphProgram program(Operation::kBackwardFilter);
  cudnn::ConvolutionCall adding = program.Call();
  adding.beta = &one;
  test::HandleStream stream(program.interposer, program.handle());
  EXPECT_EQ(program.interposer.legacy().Convolve(program.Call()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(executions, 1);
  EXPECT_EQ(program.Captured(stream, adding), 0);
  EXPECT_EQ(program.interposer.legacy().Convolve(adding), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(program.Captured(stream, adding), 1);
}

// The first call has alpha = 2, which graph engines do not support, so it measures legacy engines
// alone. The next call has alpha = 1 and beta = 0, and measures the graph engines.
TEST(LegacyGraphEngines, AreMeasuredByTheFirstCallTheyMayServe) {
  const float two = 2;
  Options options = Planned();
  options.policy = BatchSizePolicy::kUndivided;
  options.tuning = {};
  options.tuning.after_calls = 0;
  options.tuning.before_promising = false;
  GraphProgram program(Operation::kForward, options);
  const auto graphs = [&] {
    const auto rows = program.Stored();
    return std::count_if(rows.begin(), rows.end(), [](const planning::Measurement& row) {
      return row.micro.engine.of_graph_api();
    });
  };
  cudnn::ConvolutionCall scaled = program.Call();
  scaled.alpha = &two;
  EXPECT_EQ(program.interposer.legacy().Convolve(scaled), CUDNN_STATUS_SUCCESS);
  EXPECT_GT(program.Stored().size(), 0u);
  EXPECT_EQ(graphs(), 0);
  EXPECT_EQ(program.interposer.legacy().Convolve(program.Call()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(graphs(), 3);
  const long measured = program.interposer.kernels().measured();
  EXPECT_EQ(program.interposer.legacy().Convolve(program.Call()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(program.interposer.kernels().measured(), measured);
}

// The scales of a plan are fixed: beta = 1 if it adds to the gradient of a filter, otherwise beta =
// 0.
TEST(LegacyGraphEngines, ServeOnlyTheScalesTheyHold) {
  const float two = 2, one = 1, zero = 0;
  for (const Operation operation : kOperations) {
    SCOPED_TRACE(OperationName(operation));
    GraphProgram program(operation);
    const Values once = program.Output([&](cudnn::ConvolutionCall&) {});
    EXPECT_EQ(executions, 1);
    struct Scales {
      const float *alpha, *beta;
    };
    for (const Scales& scales : {Scales{&one, &one}, Scales{&two, &zero}}) {
      executions = 0;
      const Values output = program.Output([&](cudnn::ConvolutionCall& call) {
        call.alpha = scales.alpha;
        call.beta = scales.beta;
      });
      Values expected = once;
      for (size_t i = 0; i < once.size(); ++i) {
        expected[i] = *scales.alpha * once[i] + *scales.beta * program.Before()[i];
      }
      EXPECT_EQ(output, expected);
      const bool adds = operation == Operation::kBackwardFilter && scales.alpha == &one;
      EXPECT_EQ(executions, adds ? 1 : 0);
    }
  }
}

// In each case, all engines of one API take at least 30 ms, many times the usual time of this small
// convolution.
TEST(LegacyGraphEngines, AreMeasuredBesideTheLegacyOnes) {
  struct Case {
    const char* what;
    EngineSet engines;
    int legacy_ms, graph_ms;
    int graphs_measured, graphs_run;
  };
  const Case cases[] = {
      {"slow legacy engines", EngineSet::kBoth, 30, 0, 3, 1},
      {"slow graph engines", EngineSet::kBoth, 0, 30, 3, 0},
      {"legacy engines alone", EngineSet::kLegacy, 30, 0, 0, 0},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    Options options = Planned();
    options.policy = BatchSizePolicy::kUndivided;
    options.tuning = {};
    options.tuning.kernel_seconds = options.tuning.process_seconds = 600;
    options.engines = one.engines;
    options.workspace_limit = GraphProgram(Operation::kForward, options).GraphNeed(kImages);
    GraphProgram program(Operation::kForward, options);
    TheWrong().forward_takes = std::chrono::milliseconds(one.legacy_ms);
    graph_takes = std::chrono::milliseconds(one.graph_ms);
    const auto told = program.Gotten();
    ASSERT_TRUE(told && !told->empty());
    int graphs = 0;
    for (const planning::Measurement& row : program.Stored()) {
      graphs += row.micro.engine.of_graph_api();
      EXPECT_EQ(row.micro.micro_batch, kImages);
    }
    EXPECT_EQ(graphs, one.graphs_measured);
    program.ExpectRight(told->front().algorithm, told->front().workspace_bytes);
    EXPECT_EQ(program.Executions(told->front().algorithm, told->front().workspace_bytes),
              one.graphs_run);
    const long measured = program.interposer.kernels().measured();
    program.Gotten();
    EXPECT_EQ(program.interposer.kernels().measured(), measured);
  }
}

}  // namespace
}  // namespace ucudnn::interposer
