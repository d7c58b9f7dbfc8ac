// Tests native CUDA graphs of divided plans: the pieces are child graphs, one after the other.
#include <gmock/gmock.h>

#include <vector>

#include "cuda/child_graphs.h"
#include "graph_setting.h"

namespace ucudnn::interposer {
namespace {

using test::Executions;
using test::ExpectSubstitute;
using test::GraphSetting;
using test::RecordedExecution;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A CUDA graph that belongs to the application.
struct NativeGraph {
  NativeGraph() { EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS); }
  ~NativeGraph() { cuGraphDestroy(graph); }
  CUgraph graph = nullptr;
};

TEST(NativeGraphs, HoldThePieces) {
  for (const Operation operation : {Operation::kForward, Operation::kBackwardFilter}) {
    SCOPED_TRACE(OperationName(operation));
    GraphSetting setting({.operation = operation, .fused = operation == Operation::kForward});
    const auto plan = setting.Plan();
    const auto pack = setting.Pack();
    // Executes the pieces on a stream, to compare the graph's pieces with them.
    EXPECT_EQ(setting.interposer.graph().Execute(setting.handle, plan, pack), CUDNN_STATUS_SUCCESS);
    const std::vector<RecordedExecution> executed = Executions().calls;
    const auto expect_pieces = [&](const std::vector<CUgraph>& children) {
      ASSERT_THAT(Executions().calls, SizeIs(executed.size()));
      for (size_t i = 0; i < executed.size(); ++i) {
        RecordedExecution piece = Executions().calls[i];
        if (!children.empty()) {
          EXPECT_EQ(piece.graph, children[i]);
        }
        piece.graph = nullptr;
        EXPECT_EQ(piece, executed[i]) << "piece " << i;
      }
    };
    Executions() = {};
    const NativeGraph native;
    EXPECT_EQ(
        setting.interposer.graph().PopulateCudaGraph(setting.handle, plan, pack, native.graph),
        CUDNN_STATUS_SUCCESS);
    expect_pieces({});
    const std::vector<CUgraph> children = cuda::ChildrenInARow(native.graph);
    ASSERT_THAT(children, SizeIs(executed.size()));
    // Each piece is updated in its own child graph, also where the application has added the native
    // graph to another graph.
    const NativeGraph outer;
    CUgraphNode node = nullptr;
    CUgraph inner = nullptr;
    ASSERT_EQ(cuGraphAddChildGraphNode(&node, outer.graph, nullptr, 0, native.graph), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphChildGraphNodeGetGraph(node, &inner), CUDA_SUCCESS);
    for (const CUgraph graph : {native.graph, inner}) {
      Executions() = {};
      EXPECT_EQ(setting.interposer.graph().UpdateCudaGraph(setting.handle, plan, pack, graph),
                CUDNN_STATUS_SUCCESS);
      expect_pieces(cuda::ChildrenInARow(graph));
    }
    Executions() = {};
    Executions().fail_at = 1;
    EXPECT_EQ(setting.interposer.graph().UpdateCudaGraph(setting.handle, plan, pack, native.graph),
              CUDNN_STATUS_EXECUTION_FAILED);
    EXPECT_THAT(Executions().calls, SizeIs(2));
    setting.interposer.graph().Destroy(pack);
  }
}

// The plan's later division has as many pieces as the first one, but of other sizes.
TEST(NativeGraphs, KeepTheirDivisionWhenThePlanGetsAnother) {
  Options options = test::PlannedSetting::WithoutTime();
  options.policy = BatchSizePolicy::kAll;
  GraphSetting setting(options, GraphSetting::With());
  const auto plan = setting.Plan();
  const auto pack = setting.Pack();
  const auto images_of = [&](const auto& run) {
    Executions() = {};
    EXPECT_EQ(run(), CUDNN_STATUS_SUCCESS);
    std::vector<int64_t> images;
    for (const RecordedExecution& piece : Executions().calls) images.push_back(piece.images);
    return images;
  };
  GraphPlans& graph = setting.interposer.graph();
  const NativeGraph before, after;
  const auto populate = [&](const NativeGraph& native) {
    return images_of(
        [&] { return graph.PopulateCudaGraph(setting.handle, plan, pack, native.graph); });
  };
  const auto update = [&](const NativeGraph& native) {
    return images_of(
        [&] { return graph.UpdateCudaGraph(setting.handle, plan, pack, native.graph); });
  };
  const std::vector<int64_t> first = {4, 4, 4, 4}, better = {5, 5, 5, 1};
  EXPECT_EQ(populate(before), first);
  setting.Measured("graph:38", 5, 0.1, size_t{5} * 1024);
  setting.Measured("graph:38", 1, 0.1, 1024);
  const auto execute = [&] { return images_of([&] { return setting.Execute(plan); }); };
  std::vector<int64_t> executed = first;
  for (int call = 0; call < 200 && executed == first; ++call) executed = execute();
  ASSERT_EQ(executed, better);
  EXPECT_EQ(update(before), first);
  EXPECT_EQ(populate(after), first);
  EXPECT_EQ(update(after), first);
  setting.interposer.graph().Destroy(pack);
}

TEST(NativeGraphs, AreOfAllPiecesOrUndivided) {
  GraphSetting setting;
  const auto plan = setting.Plan();
  const auto pack = setting.Pack();
  Executions().fail_at = 2;
  const NativeGraph native;
  EXPECT_EQ(setting.interposer.graph().PopulateCudaGraph(setting.handle, plan, pack, native.graph),
            CUDNN_STATUS_SUCCESS);
  ASSERT_THAT(Executions().calls, SizeIs(4));
  EXPECT_EQ(Executions().calls.back().engine, 0);
  EXPECT_EQ(Executions().calls.back().images, GraphSetting::kImages);
  EXPECT_EQ(Executions().calls.back().graph, native.graph);
  EXPECT_EQ(test::NodesOf(native.graph), 0u);  // the null library adds none
  EXPECT_THAT(setting.ReportText(), HasSubstr("\"calls\": 1,\n      \"undivided_calls\": 1,"));
  Executions() = {};
  EXPECT_EQ(setting.interposer.graph().UpdateCudaGraph(setting.handle, plan, pack, native.graph),
            CUDNN_STATUS_SUCCESS);
  ExpectSubstitute();
  setting.interposer.graph().Destroy(pack);
}

// Returns the behaviour notes of `plan`'s engine. Reads them as cudnn-frontend does: first their
// number, then the notes. The array has exactly this number of elements, although the call claims
// that it has more.
std::vector<cudnnBackendBehaviorNote_t> NotesOf(GraphSetting& setting,
                                                cudnnBackendDescriptor_t plan) {
  GraphPlans& graph = setting.interposer.graph();
  cudnnBackendDescriptor_t configuration = nullptr, engine = nullptr;
  graph.Create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configuration);
  graph.Create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
  int64_t count = 0;
  graph.Get(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
            &configuration);
  graph.Get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
            &engine);
  const auto get = [&](cudnnBackendBehaviorNote_t* notes) {
    EXPECT_EQ(graph.Get(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                        CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &count, notes),
              CUDNN_STATUS_SUCCESS);
  };
  get(nullptr);
  std::vector<cudnnBackendBehaviorNote_t> notes(static_cast<size_t>(count) + 1,
                                                CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  get(notes.data());
  EXPECT_EQ(static_cast<size_t>(count) + 1, notes.size());
  EXPECT_EQ(notes.back(), CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  notes.pop_back();
  graph.Destroy(engine);
  graph.Destroy(configuration);
  return notes;
}

TEST(NativeGraphs, AreClaimedOnlyWhereWhatRunsInAPlansPlaceBecomesOne) {
  constexpr auto kNative = CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API;
  struct Case {
    size_t limit;
    uint64_t native_engines;
    bool claimed;
  };
  constexpr uint64_t kOwn = uint64_t{1} << 38, kOther = 1;
  for (const Case& c :
       {Case{GraphSetting::kPartBytes, kOwn | kOther, true},
        Case{GraphSetting::kPartBytes, kOwn, false}, Case{GraphSetting::kPartBytes, kOther, false},
        Case{GraphSetting::kNeed, kOwn, true}}) {
    for (const bool decided : {true, false}) {
      SCOPED_TRACE(std::to_string(c.limit) + " bytes, engines " + std::to_string(c.native_engines) +
                   (decided ? ", decided" : ""));
      nullGraphSetNative(c.native_engines);
      GraphSetting setting(GraphSetting::Limited(c.limit), {});
      cudnnBackendDescriptor_t plan = nullptr;
      if (decided) {
        plan = setting.Plan();
      } else {
        GraphPlans& graph = setting.interposer.graph();
        const std::string json = setting.Json();
        graph.Create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
        graph.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &setting.handle);
        graph.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  static_cast<int64_t>(json.size()), json.data());
        ASSERT_EQ(setting.functions.cudnnBackendFinalize(plan), CUDNN_STATUS_SUCCESS);
      }
      const auto notes = NotesOf(setting, plan);
      EXPECT_EQ(std::vector(c.claimed ? 1 : 0, kNative), notes);
      setting.interposer.graph().Destroy(plan);
    }
  }
  nullGraphSetNative(0);
}

TEST(NativeGraphs, OfOtherShapesStayInsideThePromise) {
  GraphSetting setting;
  const auto plan = setting.Plan();
  const auto pack = setting.PackOfOtherShapes();
  const NativeGraph native;
  EXPECT_EQ(setting.interposer.graph().PopulateCudaGraph(setting.handle, plan, pack, native.graph),
            CUDNN_STATUS_SUCCESS);
  ExpectSubstitute();
  setting.interposer.graph().Destroy(pack);
}

}  // namespace
}  // namespace ucudnn::interposer
