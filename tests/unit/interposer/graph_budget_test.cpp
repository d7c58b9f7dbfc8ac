// Execution plans under one workspace budget, on the stand-in's real arithmetic: pieces in the
// library's memory compute, to the bit, what the undivided plan does.
#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <thread>

#include "convolution/partial_sums.h"
#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

constexpr int kCalls = 8;  // half of them while the network is learned

struct BudgetCase {
  const char* name;
  Operation operation;
  bool fused = false;
  DataType type = DataType::kFloat;
};

Options Budget(size_t bytes, WorkspaceDivision division = WorkspaceDivision::kConcurrent) {
  Options options;
  options.tuning.on = false;
  options.policy = BatchSizePolicy::kPowerOfTwo;
  options.total_workspace = bytes;
  options.division = division;
  return options;
}

// A program whose store says that pieces of two images are fast, and what goes without workspace is
// slow.
class Shared {
 public:
  Shared(const BudgetCase& which, const Options& options)
      : problem_(Problem(which.operation, which.type)),
        graph_options_(OptionsOf(which)),
        program_(options),
        whole_(problem_, graph_options_, program_.genuine, {program_.handle}),
        hooked_(problem_, graph_options_, program_.hooked, {program_.handle}) {
    ConvolutionProblem part = problem_;
    part.n = kPart;
    const cudnn::test::Graph parts(part, graph_options_, program_.genuine, {program_.handle});
    program_.Measured(whole_, kEngine, 100);
    program_.Measured(parts, kEngine, 1);
    const auto piece = parts.Plan(kEngine);
    need_ = *cudnn::PlanWorkspace(program_.genuine, piece->get());
    EXPECT_GT(need_, 0u);
    if (SumsPartials(problem_)) StoreSum();
    for (int engine = 0; engine < 8; ++engine) {
      const auto plan = whole_.Plan(engine);
      if (plan && *cudnn::PlanWorkspace(program_.genuine, plan->get()) == 0) {
        program_.Measured(whole_, engine, 50);
      }
    }
    plan_ = hooked_.Plan(kEngine);
    EXPECT_TRUE(plan_);
    undivided_ = whole_.Plan(kEngine);
  }

  Program& program() { return program_; }
  // Of a piece.
  size_t need() const { return need_; }
  void EndRecording() {
    const Status status = program_.interposer.EndRecording(program_.handle);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Network& TheNetwork() {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    return *program_.interposer.NetworkOf(context);
  }
  // Memory of exactly the workspace that is asked for.
  std::unique_ptr<Operands> Memory() {
    return std::make_unique<Operands>(problem_, graph_options_,
                                      *cudnn::PlanWorkspace(program_.hooked, plan_->get()));
  }
  void Run(const Operands& operands, cudnnHandle_t handle) {
    EXPECT_EQ(operands.Execute(program_.hooked, handle, plan_->get()), CUDNN_STATUS_SUCCESS);
  }
  Values Undivided(int seed) {
    Operands operands(problem_, graph_options_,
                      *cudnn::PlanWorkspace(program_.genuine, undivided_->get()));
    operands.Fill(seed);
    EXPECT_EQ(operands.Execute(program_.genuine, program_.handle, undivided_->get()),
              CUDNN_STATUS_SUCCESS);
    return operands.Output();
  }

 private:
  static GraphOptions OptionsOf(const BudgetCase& which) {
    GraphOptions options;
    options.residual = options.bias = options.relu = which.fused;
    return options;
  }
  void StoreSum() {
    const auto read = cudnn::ReadTemplate(program_.genuine, whole_.Plan(kEngine)->get());
    const auto platform = tuning::DescribePlatform(*cuda::GetDriver(), program_.genuine);
    ASSERT_TRUE(read.ok() && platform.ok());
    const size_t bytes = PartialSumBytes(problem_);
    EXPECT_TRUE(program_.store
                    .Write(read->plan.problem, *platform,
                           {{{kPartialSum, kPartialSumBatch, 0.1, bytes, true}, 5, true}}, {})
                    .ok());
    need_ += bytes;
  }

  const ConvolutionProblem problem_;
  const GraphOptions graph_options_;
  Program program_;
  const cudnn::test::Graph whole_, hooked_;
  size_t need_ = 0;
  std::optional<cudnn::BackendDescriptor> plan_, undivided_;
};

class GraphBudget : public ::testing::TestWithParam<BudgetCase> {};

TEST_P(GraphBudget, PiecesInTheLibrarysMemoryComputeWhatTheWholeDoes) {
  Shared shared(GetParam(), Budget(kAmple));
  const auto operands = shared.Memory();
  for (int call = 0; call < kCalls; ++call) {
    operands->Fill(call);
    shared.Run(*operands, shared.program().handle);
    EXPECT_EQ(operands->Output(), shared.Undivided(call)) << "call " << call;
    EXPECT_TRUE(operands->GuardsAreIntact());
    EXPECT_LE(shared.TheNetwork().bytes(), kAmple);
    if (call == kCalls / 2) shared.EndRecording();
  }
  const auto report = shared.program().Report();
  EXPECT_EQ(report["fallbacks"].dump(), "[]");
  EXPECT_EQ(report["total_workspace"]["divided"], true);
  const auto& kernel = report["kernels"].back();
  EXPECT_EQ(kernel["plan"][0]["count"], 8 / kPart);
  EXPECT_EQ(kernel["workspace_bytes"], 0);
  EXPECT_GT(kernel["library_bytes"], 0);
  EXPECT_EQ(kernel["calls"], kCalls);
}

TEST_P(GraphBudget, WhatACaptureHoldsReplaysBesideOtherCalls) {
  Shared shared(GetParam(), Budget(kAmple));
  Program& program = shared.program();
  const auto captured = shared.Memory(), beside = shared.Memory();
  CUstream stream = nullptr, other = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  program.interposer.SetStream(program.handle, stream);
  for (int call = 0; call < kCalls; ++call) {
    shared.Run(*beside, program.handle);
    if (call == kCalls / 2) shared.EndRecording();
  }
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  shared.Run(*captured, program.handle);
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  size_t nodes = 0;
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
  EXPECT_GE(nodes, size_t{8 / kPart});
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  for (int seed = 1; seed <= 4; ++seed) {
    captured->Fill(seed);
    beside->Fill(seed + 10);
    EXPECT_EQ(cuGraphLaunch(exec, other), CUDA_SUCCESS);
    shared.Run(*beside, program.handle);
    EXPECT_EQ(captured->Output(), shared.Undivided(seed));
    EXPECT_EQ(beside->Output(), shared.Undivided(seed + 10));
  }
  EXPECT_LE(shared.TheNetwork().bytes(), kAmple);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  program.interposer.SetStream(program.handle, nullptr);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
}

TEST_P(GraphBudget, ThreadsOnStreamsOfTheirOwnGetTheirOwnResults) {
  const size_t need = Shared(GetParam(), Budget(kAmple)).need();
  for (const WorkspaceDivision division :
       {WorkspaceDivision::kDisjoint, WorkspaceDivision::kConcurrent}) {
    for (const size_t budget : {need, 2 * need, kAmple}) {
      SCOPED_TRACE(WorkspaceDivisionName(division) + std::string(" ") + std::to_string(budget));
      Shared shared(GetParam(), Budget(budget, division));
      const Values expected[] = {shared.Undivided(1), shared.Undivided(2)};
      Network& network = shared.TheNetwork();
      std::vector<std::thread> threads;
      for (int thread = 0; thread < 2; ++thread) {
        threads.emplace_back([&, thread, context = network.context()] {
          EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
          Interposer& interposer = shared.program().interposer;
          cudnnHandle_t handle = nullptr;
          CUstream stream = nullptr;
          EXPECT_EQ(interposer.Create(&handle), CUDNN_STATUS_SUCCESS);
          EXPECT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
          EXPECT_EQ(interposer.SetStream(handle, stream), CUDNN_STATUS_SUCCESS);
          const auto operands = shared.Memory();
          operands->Fill(thread + 1);
          for (int call = 0; call < kCalls; ++call) {
            shared.Run(*operands, handle);
            shared.Run(*operands, handle);
            EXPECT_LE(network.bytes(), budget);
            EXPECT_EQ(operands->Output(), expected[thread]) << "call " << call;
          }
          EXPECT_EQ(interposer.Destroy(handle), CUDNN_STATUS_SUCCESS);
          EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_LE(network.bytes(), budget);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, GraphBudget,
    ::testing::Values(BudgetCase{"forward", Operation::kForward},
                      BudgetCase{"fused", Operation::kForward, true},
                      BudgetCase{"backward_data", Operation::kBackwardData},
                      BudgetCase{"backward_filter", Operation::kBackwardFilter},
                      BudgetCase{"backward_filter_fp16", Operation::kBackwardFilter, false,
                                 DataType::kHalf}),
    [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace ucudnn::interposer
