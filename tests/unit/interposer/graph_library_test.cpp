// Execution plans under one workspace budget: each is a kernel of its own, answers 0, and its
// pieces run in the library's memory, never in the application's.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "graph_setting.h"
#include "shim/host/hostgpu.h"

namespace ucudnn::interposer {
namespace {

using test::Executions;
using test::GraphSetting;
using test::RecordedExecution;
using ::testing::Each;
using ::testing::Field;
using ::testing::SizeIs;

constexpr size_t kPart = GraphSetting::kPartBytes, kAmple = size_t{1} << 20;
constexpr int kPieces = GraphSetting::kImages / GraphSetting::kPart;
// Calls after which the only kernel of a network is known to be that.
constexpr int kLearning = KernelSequence::kOfOneKernel;

Options Budget(size_t bytes, WorkspaceDivision division = WorkspaceDivision::kConcurrent) {
  Options options = test::PlannedSetting::NotMeasuring();
  options.total_workspace = bytes;
  options.division = division;
  return options;
}

struct Shared : GraphSetting {
  explicit Shared(const With& with = {}, size_t budget = kAmple,
                  WorkspaceDivision division = WorkspaceDivision::kConcurrent)
      : GraphSetting(Budget(budget, division), with) {}

  const std::vector<RecordedExecution>& Run(cudnnBackendDescriptor_t plan) {
    Executions() = {};
    EXPECT_EQ(Execute(plan), CUDNN_STATUS_SUCCESS);
    EXPECT_LE(TheNetwork().bytes(), *options.total_workspace);
    return Executions().calls;
  }
  // Where the pieces of one call had their workspace.
  const void* Ran(cudnnBackendDescriptor_t plan, int engine = 38) {
    const std::vector<RecordedExecution> calls = Run(plan);
    EXPECT_THAT(calls, SizeIs(kPieces));
    EXPECT_THAT(calls, Each(Field(&RecordedExecution::engine, engine)));
    EXPECT_THAT(calls, Each(Field(&RecordedExecution::workspace, calls[0].workspace)));
    EXPECT_NE(calls[0].workspace, nullptr);
    EXPECT_NE(calls[0].workspace, Pointer(0x40000000));
    return calls[0].workspace;
  }
  void Learn(cudnnBackendDescriptor_t plan) {
    for (int call = 0; call <= kLearning; ++call) Run(plan);
    // Longer where others were made that do not run.
    for (size_t call = 0; call < KernelSequence::kOfOneAmongOthers && TheNetwork().learning();
         ++call) {
      Run(plan);
    }
    EXPECT_FALSE(TheNetwork().learning());
  }
  // Engine 0, which needs none, with the application's own pack.
  void ExpectSubstitute(cudnnBackendDescriptor_t plan) {
    const std::vector<RecordedExecution> calls = Run(plan);
    ASSERT_THAT(calls, SizeIs(1));
    EXPECT_EQ(calls[0].engine, 0);
    EXPECT_EQ(calls[0].images, kImages);
    EXPECT_EQ(calls[0].workspace, Pointer(0x40000000));
  }
  Network& TheNetwork() {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    return *interposer.NetworkOf(context);
  }
  nlohmann::json Report() { return nlohmann::json::parse(interposer.report().Json("on", 0)); }
  nlohmann::json Total() { return Report()["total_workspace"]; }
};

// The plan's other engine, which needs twice as much.
cudnnBackendDescriptor_t Hungry(Shared& setting) {
  setting.Measured("graph:67", GraphSetting::kImages, 100, 2 * GraphSetting::kNeed);
  setting.Measured("graph:67", GraphSetting::kPart, 1, 2 * kPart);
  return setting.Plan(nullptr, setting.Json(67));
}

struct OtherStream {
  explicit OtherStream(Shared& of) : setting(of) {
    EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    setting.interposer.SetStream(setting.handle, stream);
  }
  ~OtherStream() {
    setting.interposer.SetStream(setting.handle, nullptr);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  }
  Shared& setting;
  CUstream stream = nullptr;
};

TEST(GraphLibrary, PiecesRunInTheLibrarysMemoryBeforeAndAfterTheDivision) {
  for (const Operation operation :
       {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
    for (const bool fused : {false, true}) {
      if (fused && operation != Operation::kForward) continue;
      SCOPED_TRACE(OperationName(operation) + std::string(fused ? " fused" : ""));
      GraphSetting::With with;
      with.operation = operation;
      with.fused = fused;
      Shared setting(with);
      const auto plan = setting.Plan();
      EXPECT_EQ(setting.Workspace(plan), 0u);
      setting.Ran(plan);
      setting.Learn(plan);
      const void* const own = setting.Ran(plan);
      EXPECT_EQ(setting.Ran(plan), own) << "kept";
      EXPECT_EQ(setting.Workspace(plan), 0u);
      const bool adds = operation == Operation::kBackwardFilter;
      for (int piece = 0; piece < kPieces; ++piece) {
        EXPECT_EQ(Executions().calls[piece].adds, adds && piece > 0) << piece;
      }
      EXPECT_EQ(setting.Report()["fallbacks"].dump(), "[]");
    }
  }
}

TEST(GraphLibrary, TheApplicationsPackIsNeverChanged) {
  Shared setting;
  const auto plan = setting.Plan();
  const auto pack = setting.Pack();
  for (int call = 0; call <= 2 * kLearning; ++call) {
    EXPECT_EQ(setting.interposer.graph().Execute(setting.handle, plan, pack), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(nullGraphWorkspace(pack), GraphSetting::Pointer(0x40000000));
    EXPECT_EQ(nullGraphPointer(pack, test::kX), GraphSetting::Pointer(0x10000000));
  }
  setting.interposer.graph().Destroy(pack);
}

TEST(GraphLibrary, ThePlanItselfRunsWholeWhereThatIsFastest) {
  GraphSetting::With with;
  with.whole_ms = 1;
  with.part_ms = 100;
  Shared setting(with);
  const auto plan = setting.Plan();
  for (int call = 0; call <= 2 * kLearning; ++call) {
    const auto& calls = setting.Run(plan);
    ASSERT_THAT(calls, SizeIs(1));
    EXPECT_EQ(calls[0].engine, 38);
    EXPECT_NE(calls[0].workspace, GraphSetting::Pointer(0x40000000));
  }
  const auto kernel = setting.Report()["kernels"].back();
  EXPECT_EQ(kernel["library_bytes"], GraphSetting::kNeed);
  EXPECT_EQ(kernel["workspace_bytes"], 0);
}

TEST(GraphLibrary, IsStatedAndInsideTheBudget) {
  Shared setting;
  const auto plan = setting.Plan();
  setting.Learn(plan);
  const auto total = setting.Total();
  EXPECT_EQ(total["divided"], true);
  EXPECT_EQ(total["kernels"], 1);
  EXPECT_EQ(total["total_workspace_bytes"], kPart);
  const auto report = setting.Report();
  long calls = 0;
  for (const auto& kernel : report["kernels"]) calls += kernel["calls"].get<long>();
  EXPECT_EQ(calls, kLearning + 1);
  const auto& kernel = report["kernels"].back();
  EXPECT_EQ(kernel["api"], "graph");
  EXPECT_EQ(kernel["workspace_bytes"], 0);
  EXPECT_EQ(kernel["library_bytes"], kPart);
  EXPECT_EQ(kernel["limit_bytes"], kPart) << "its share";
  EXPECT_EQ(kernel["plan"][0]["count"], kPieces);
}

TEST(GraphLibrary, WhereTheBudgetIsShortTheSubstituteRuns) {
  Shared enough({}, kPart);
  const auto plan = enough.Plan();
  enough.Learn(plan);
  enough.Ran(plan);
  EXPECT_EQ(enough.TheNetwork().bytes(), kPart);
  Shared lacking({}, kPart - 1);
  const auto other = lacking.Plan();
  EXPECT_EQ(lacking.Workspace(other), 0u);
  for (int call = 0; call <= 2 * kLearning; ++call) lacking.ExpectSubstitute(other);
  EXPECT_EQ(lacking.TheNetwork().bytes(), 0u);
}

TEST(GraphLibrary, WithoutDeviceMemoryTheSubstituteRuns) {
  Shared setting;
  const auto plan = setting.Plan();
  hostgpuInjectFault("alloc", 1);
  setting.ExpectSubstitute(plan);
  hostgpuInjectFault("alloc", 0);
  setting.Learn(plan);
  setting.Ran(plan);
}

TEST(GraphLibrary, WhatNobodyMeasuredRunsAsTheSubstituteUntilSomebodyDoes) {
  GraphSetting::With with;
  with.measured = with.other = false;
  Shared setting(with);
  const auto plan = setting.Plan();
  EXPECT_EQ(setting.Workspace(plan), 0u);
  setting.Learn(plan);
  setting.ExpectSubstitute(plan);
  setting.Measured("graph:38", GraphSetting::kPart, 1, kPart);
  setting.Measured("graph:38", GraphSetting::kImages, 100, GraphSetting::kNeed);
  setting.Measured("graph:0", GraphSetting::kImages, 50, 0);
  for (int call = 0; call < 20; ++call) setting.Run(plan);
  setting.Ran(plan);
  EXPECT_EQ(setting.Workspace(plan), 0u);
}

TEST(GraphLibrary, APlanOfOneImageIsInItToo) {
  GraphSetting::With with;
  with.measured = with.other = false;
  Shared setting(with);
  std::string json = setting.Json();
  for (const char* of_y_or_x : {"[16,4,8,8]", "[16,8,8,8]"}) {
    json.replace(json.find(of_y_or_x) + 1, 2, "1");
  }
  const auto plan = setting.Plan(nullptr, json);
  EXPECT_EQ(setting.Workspace(plan), 0u);
}

TEST(GraphLibrary, OfTwoStreamsIsApart) {
  for (const bool known : {false, true}) {
    SCOPED_TRACE(known ? "known" : "learning");
    Shared setting;
    const auto plan = setting.Plan();
    if (known) setting.Learn(plan);
    const void* const first = setting.Ran(plan);
    {
      OtherStream stream(setting);
      EXPECT_NE(setting.Ran(plan), first);
    }
    EXPECT_EQ(setting.Ran(plan), first);
  }
}

TEST(GraphLibrary, AStreamThatFindsNoneLeftRunsTheSubstitute) {
  Shared setting({}, kPart);
  const auto plan = setting.Plan();
  setting.Learn(plan);
  const void* const first = setting.Ran(plan);
  {
    OtherStream stream(setting);
    setting.ExpectSubstitute(plan);
  }
  EXPECT_EQ(setting.Ran(plan), first);
}

TEST(GraphLibrary, OfACaptureIsItsOwn) {
  Shared setting;
  OtherStream other(setting);
  const auto plan = setting.Plan();
  const auto captured = [&](int calls) {
    Executions() = {};
    EXPECT_EQ(cuStreamBeginCapture(other.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    for (int call = 0; call < calls; ++call) {
      EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
    }
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(other.stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    return Executions().calls;
  };
  EXPECT_THAT(captured(1), SizeIs(1)) << "it never ran outside";
  setting.Ran(plan);
  EXPECT_THAT(captured(1), SizeIs(1)) << "none is ready";
  setting.Learn(plan);
  const void* const outside = setting.Ran(plan);
  const std::vector<RecordedExecution> pieces = captured(2);
  ASSERT_THAT(pieces, SizeIs(2 * kPieces));
  EXPECT_NE(pieces[0].workspace, outside);
  EXPECT_NE(pieces[0].workspace, GraphSetting::Pointer(0x40000000));
  EXPECT_THAT(pieces, Each(Field(&RecordedExecution::workspace, pieces[0].workspace)));
  EXPECT_THAT(captured(1), SizeIs(1)) << "never another capture's";
  EXPECT_EQ(setting.Ran(plan), outside);
}

TEST(GraphLibrary, WhereAPieceFailsTheSubstituteTakesItsPlaceForEver) {
  for (const bool known : {false, true}) {
    for (int piece = 0; piece < kPieces; ++piece) {
      SCOPED_TRACE(std::to_string(piece) + (known ? " known" : " learning"));
      Shared setting;
      const auto plan = setting.Plan();
      if (known) setting.Learn(plan);
      Executions() = {};
      Executions().fail_at = piece;
      EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_SUCCESS);
      ASSERT_THAT(Executions().calls, SizeIs(piece + 2));
      EXPECT_EQ(Executions().calls.back().engine, 0);
      EXPECT_EQ(Executions().calls.back().images, GraphSetting::kImages);
      for (int call = 0; call < 2 * kLearning; ++call) setting.ExpectSubstitute(plan);
      EXPECT_THAT(setting.Report()["fallbacks"].dump(), ::testing::HasSubstr("a piece failed"));
    }
  }
}

// A gradient that pieces added to cannot be computed again.
TEST(GraphLibrary, AnErrorThatCannotBeHealedIsTheGenuineOne) {
  GraphSetting::With with;
  with.operation = Operation::kBackwardFilter;
  Shared setting(with);
  std::string json = setting.Json();
  const std::string beta = "\"beta\":0.0";
  json.replace(json.find(beta), beta.size(), "\"beta\":1.0");
  const auto plan = setting.Plan(nullptr, json);
  setting.Learn(plan);
  setting.Ran(plan);
  Executions() = {};
  Executions().fail_at = 2;
  EXPECT_EQ(setting.Execute(plan), CUDNN_STATUS_EXECUTION_FAILED);
  setting.ExpectSubstitute(plan);
}

// The same problem three times: legacy calls, and plans with two engines.
TEST(GraphLibrary, LegacyCallsAndPlansShareOneBudget) {
  for (const auto& [division, together] :
       {std::pair(WorkspaceDivision::kDisjoint, kPart + 2 * kPart),
        std::pair(WorkspaceDivision::kConcurrent, 2 * kPart)}) {
    SCOPED_TRACE(WorkspaceDivisionName(division));
    Shared setting({}, kAmple, division);
    const auto plan = setting.Plan(), hungry = Hungry(setting);
    const auto platform = tuning::DescribePlatform(*cuda::GetDriver(), setting.functions);
    ASSERT_TRUE(platform.ok());
    ConvolutionProblem problem = setting.Problem();
    problem.alignment = cudnn::kLegacyAlignment;
    ASSERT_TRUE(setting.store
                    .Write(problem, *platform,
                           {{{"legacy:0", GraphSetting::kImages, 100, 0, true}, 5, true}},
                           {GraphSetting::kImages})
                    .ok());
    cudnn::OwnedDescriptors descriptors(setting.functions);
    ASSERT_TRUE(descriptors.Create(problem).ok());
    static const float one = 1, zero = 0;
    cudnn::LegacyCall call;
    call.handle = setting.handle;
    call.descriptors = descriptors.get();
    call.alpha = &one;
    call.beta = &zero;
    call.x = GraphSetting::Pointer(0x10000000);
    call.w = GraphSetting::Pointer(0x20000000);
    call.y = GraphSetting::Pointer(0x30000000);
    for (int iteration = 0; iteration < 3; ++iteration) {
      EXPECT_EQ(setting.interposer.Convolve(call), CUDNN_STATUS_SUCCESS);
      setting.Run(plan);
      setting.Run(hungry);
    }
    EXPECT_FALSE(setting.TheNetwork().learning());
    const auto total = setting.Total();
    EXPECT_EQ(total["kernels"], 3);
    EXPECT_EQ(total["total_workspace_bytes"], together);
    const void *const first = setting.Ran(plan), *const second = setting.Ran(hungry, 67);
    EXPECT_EQ(first != second, division == WorkspaceDivision::kDisjoint);
    std::set<std::string> apis;
    const auto report = setting.Report();
    for (const auto& kernel : report["kernels"]) apis.insert(kernel["api"]);
    EXPECT_THAT(apis, ::testing::ElementsAre("graph", "legacy"));
  }
}

// An application that times plans makes many, and keeps one.
TEST(GraphLibrary, PlansThatNeverRanHaveNoShareOnceTheOthersAreKnown) {
  Shared setting({}, 2 * kPart, WorkspaceDivision::kDisjoint);
  const auto hungry = Hungry(setting), plan = setting.Plan();
  // All are known, as it seems; the hungry one takes the whole budget, or none.
  setting.Run(plan);
  EXPECT_EQ(setting.Total()["kernels"], 2);
  setting.Learn(plan);
  setting.Ran(plan);
  EXPECT_EQ(setting.Total()["kernels"], 1);
  EXPECT_EQ(setting.Total()["total_workspace_bytes"], kPart);
  // What comes later has what is left, and that is too little.
  setting.ExpectSubstitute(hungry);
}

TEST(GraphLibrary, PlansThatWereMeasuredSinceHaveAShareOnceAllRan) {
  Shared setting;
  const auto plan = setting.Plan(), other = setting.Plan(nullptr, setting.Json(67));
  setting.Run(plan);
  EXPECT_EQ(setting.Total()["total_workspace_bytes"], kPart);
  Hungry(setting);
  setting.Run(other);
  for (int call = 0; call < 2; ++call) setting.Run(call == 0 ? plan : other);
  EXPECT_EQ(setting.Total()["total_workspace_bytes"], 2 * kPart);
  setting.Ran(other, 67);
}

TEST(GraphLibrary, EqualPlansAreOneKernel) {
  Shared setting;
  const auto plan = setting.Plan(), equal = setting.Plan();
  setting.Learn(plan);
  EXPECT_EQ(setting.Total()["kernels"], 1);
  setting.Ran(equal);
}

TEST(GraphLibrary, NativeGraphsGoWithout) {
  Shared setting;
  const auto plan = setting.Plan();
  const auto pack = setting.Pack();
  setting.Learn(plan);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  Executions() = {};
  for (const bool update : {false, true}) {
    auto& graphs = setting.interposer.graph();
    EXPECT_EQ(update ? graphs.UpdateCudaGraph(setting.handle, plan, pack, graph)
                     : graphs.PopulateCudaGraph(setting.handle, plan, pack, graph),
              CUDNN_STATUS_SUCCESS);
  }
  ASSERT_THAT(Executions().calls, SizeIs(2));
  for (const RecordedExecution& call : Executions().calls) {
    EXPECT_EQ(call.engine, 0);
    EXPECT_EQ(call.images, GraphSetting::kImages);
    EXPECT_EQ(call.workspace, GraphSetting::Pointer(0x40000000));
    EXPECT_EQ(call.graph, graph);
  }
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  setting.interposer.graph().Destroy(pack);
}

TEST(GraphLibrary, ThePlanOfALaterPlaceInTheListIsInIt) {
  Shared setting;
  const auto plan = setting.PlanOfRank(1);
  EXPECT_EQ(setting.Workspace(plan), 0u);
  setting.Learn(plan);
  setting.Ran(plan);
}

}  // namespace
}  // namespace ucudnn::interposer
