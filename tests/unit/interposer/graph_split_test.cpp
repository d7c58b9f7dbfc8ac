// Tests plans of the graph API whose images are split over two ranks, on the stand-in's real
// arithmetic. The ranks are threads of one process.
#include <gmock/gmock.h>

#include <barrier>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int kSplitRanks = 2;

// Returns `options` with the grid h2, whose ranks are threads of this process.
Options SplitInTwo(Options options) {
  options.spatial.grid = *SpatialGrid::Parse("h2");
  options.spatial.transport = Transport::kLoopback;
  options.spatial.timeout_seconds = 60;
  ConcludeSpatial(nullptr, options.spatial);
  EXPECT_TRUE(options.spatial.in_process);
  EXPECT_EQ(options.spatial.refusal, "");
  return options;
}

// A rank's stripe of a convolution with one tap. The rank needs no rows of other ranks, so its own
// rows determine its part of the result.
ConvolutionProblem StripeOfOneTap() {
  return test::ProblemWith({.x = {1, 6, 12}, .w = {1, 1, 1}, .pad = {0, 0, 0}});
}

// The program's ranks, each on its own thread with a handle and a stream.
class SplitProgram : public Program {
 public:
  using Program::Program;
  ~SplitProgram() { interposer.splitter().Leave(); }

  void OnAllRanks(const std::function<void(int, cudnnHandle_t)>& work) {
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kSplitRanks; ++rank) {
      threads.emplace_back([&, rank] {
        ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
        Sessions& sessions = interposer.sessions();
        cudnnHandle_t own = nullptr;
        CUstream stream = nullptr;
        ASSERT_EQ(sessions.Create(&own), CUDNN_STATUS_SUCCESS);
        ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        EXPECT_EQ(sessions.SetStream(own, stream), CUDNN_STATUS_SUCCESS);
        const Status joined = interposer.splitter().Join(own, rank);
        EXPECT_TRUE(joined.ok()) << joined.message();
        work(rank, own);
        EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
        EXPECT_EQ(sessions.Destroy(own), CUDNN_STATUS_SUCCESS);
        EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

// Returns what the undivided plan computes from the rank's rows alone.
Values OnOwnRows(const SplitProgram& program, const ConvolutionProblem& problem,
                 cudnnHandle_t handle, int seed) {
  const test::Graph graph(problem, {}, program.real, {handle});
  const auto plan = graph.Plan(kEngine);
  EXPECT_TRUE(plan);
  if (!plan) return {};
  Operands operands(problem, GraphOptions(), *cudnn::PlanWorkspace(program.real, plan->get()));
  operands.Fill(seed);
  EXPECT_EQ(operands.Execute(program.real, handle, plan->get()), CUDNN_STATUS_SUCCESS);
  return operands.Output();
}

// Expects three correct calls of a plan on each rank. Reading a result waits for all streams. So a
// rank reads its result after the other rank has made the same call, and before the other rank
// makes its next call.
void ExpectSplitCalls(SplitProgram& program) {
  std::barrier meet(kSplitRanks);
  program.OnAllRanks([&](int rank, cudnnHandle_t handle) {
    const ConvolutionProblem problem = StripeOfOneTap();
    const test::Graph graph(problem, {}, program.hooked, {handle});
    const auto plan = graph.Plan(kEngine);
    EXPECT_TRUE(plan) << "it is refused";
    if (!plan) {
      meet.arrive_and_drop();
      return;
    }
    Operands operands(problem, GraphOptions(), *cudnn::PlanWorkspace(program.hooked, plan->get()));
    for (int step = 0; step < 3; ++step) {
      const int seed = 10 * rank + step;
      operands.Fill(seed);
      EXPECT_EQ(operands.Execute(program.hooked, handle, plan->get()), CUDNN_STATUS_SUCCESS);
      meet.arrive_and_wait();
      EXPECT_EQ(operands.Output(), OnOwnRows(program, problem, handle, seed));
      meet.arrive_and_wait();
    }
    EXPECT_TRUE(operands.GuardsAreIntact());
  });
  EXPECT_EQ(program.Report()["spatial"]["calls"], kSplitRanks * 3);
}

TEST(GraphSplit, CallsAreSplitBeyondTheLastRememberedPlanToo) {
  for (const size_t remembered : {kMostKernels, size_t{0}}) {
    SCOPED_TRACE(remembered);
    SplitProgram program(SplitInTwo(test::Planned()));
    program.interposer.graph().set_most_kernels(remembered);
    ExpectSplitCalls(program);
    const std::string fallbacks = program.Report()["fallbacks"].dump();
    if (remembered == 0) {
      EXPECT_THAT(fallbacks, HasSubstr("too many different kernels"));
    } else {
      EXPECT_EQ(fallbacks.find("too many"), std::string::npos) << fallbacks;
    }
  }
}

TEST(GraphSplit, PlansBeyondTheLastRememberedOneAreNotMeasured) {
  Options options = test::Planned();
  options.tuning.on = true;
  for (const size_t remembered : {kMostKernels, size_t{0}}) {
    SplitProgram program(SplitInTwo(options));
    program.interposer.graph().set_most_kernels(remembered);
    ExpectSplitCalls(program);
    EXPECT_EQ(program.interposer.kernels().measured() > 0, remembered > 0);
  }
}

// Replaces functions of `functions`, so that the library accepts every graph and answers no
// questions about descriptors. All operations then reach the splitter.
void TakeEveryGraph(cudnn::Functions& functions) {
  functions.cudnnBackendCreateDescriptor = [](auto, auto* out) {
    *out = static_cast<cudnnBackendDescriptor_t>(::operator new(1));
    return CUDNN_STATUS_SUCCESS;
  };
  functions.cudnnBackendDestroyDescriptor = [](auto descriptor) {
    ::operator delete(descriptor);
    return CUDNN_STATUS_SUCCESS;
  };
  functions.cudnnBackendSetAttribute = [](auto, auto, auto, int64_t, const void*) {
    return CUDNN_STATUS_SUCCESS;
  };
  functions.cudnnBackendGetAttribute = [](cudnnBackendDescriptor_t const, auto, auto, int64_t,
                                          int64_t*, void*) { return CUDNN_STATUS_NOT_SUPPORTED; };
  functions.cudnnBackendFinalize = [](auto) { return CUDNN_STATUS_SUCCESS; };
  functions.cudnnBackendExecute = [](auto, auto, auto) { return CUDNN_STATUS_SUCCESS; };
}

// A plan of operations without tensors. Of each operation only the type is set and, for norms and
// pointwise operations, the mode.
class NamedPlan {
 public:
  struct Operation {
    cudnnBackendDescriptorType_t type;
    std::optional<cudnnBackendNormMode_t> norm = std::nullopt;
    std::optional<cudnnPointwiseMode_t> mode = std::nullopt;
    bool is_seen = true;  // false: the interposer did not see the operation being made
  };

  NamedPlan(SplitProgram& program, const std::vector<Operation>& operations) : program_(program) {
    for (const Operation& operation : operations) operations_.push_back(Made(operation));
    const auto graph = New(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    Set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, program_.handle);
    EXPECT_EQ(program_.hooked.cudnnBackendSetAttribute(
                  graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  static_cast<int64_t>(operations_.size()), operations_.data()),
              CUDNN_STATUS_SUCCESS);
    const auto engine = New(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    const auto configuration = New(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    plan_ = New(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    Set(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph);
    Set(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, engine);
    Set(plan_, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        configuration);
    Set(plan_, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, program_.handle);
    finalized_ = program_.hooked.cudnnBackendFinalize(plan_);
  }
  ~NamedPlan() {
    for (const auto descriptor : made_) program_.hooked.cudnnBackendDestroyDescriptor(descriptor);
  }
  NamedPlan(const NamedPlan&) = delete;
  NamedPlan& operator=(const NamedPlan&) = delete;

  cudnnStatus_t finalized() const { return finalized_; }
  cudnnBackendDescriptor_t get() const { return plan_; }

 private:
  cudnnBackendDescriptor_t New(cudnnBackendDescriptorType_t type, bool is_seen = true) {
    cudnnBackendDescriptor_t descriptor = nullptr;
    const auto create = is_seen ? program_.hooked.cudnnBackendCreateDescriptor
                                : program_.under.cudnnBackendCreateDescriptor;
    EXPECT_EQ(create(type, &descriptor), CUDNN_STATUS_SUCCESS);
    return made_.emplace_back(descriptor);
  }
  template <typename Value>
  void Set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, const Value& value) {
    EXPECT_EQ(program_.hooked.cudnnBackendSetAttribute(to, name, type, 1, &value),
              CUDNN_STATUS_SUCCESS);
  }
  cudnnBackendDescriptor_t Made(const Operation& operation) {
    const auto made = New(operation.type, operation.is_seen);
    if (operation.norm) {
      const bool is_forward = operation.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR;
      Set(made,
          is_forward ? CUDNN_ATTR_OPERATION_NORM_FWD_MODE : CUDNN_ATTR_OPERATION_NORM_BWD_MODE,
          CUDNN_TYPE_NORM_MODE, *operation.norm);
    }
    if (operation.mode) {
      const auto mode = New(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
      Set(mode, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, *operation.mode);
      Set(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, mode);
    }
    return made;
  }

  SplitProgram& program_;
  std::vector<cudnnBackendDescriptor_t> made_, operations_;
  cudnnBackendDescriptor_t plan_ = nullptr;
  cudnnStatus_t finalized_ = CUDNN_STATUS_SUCCESS;
};

std::vector<std::string> RefusedBy(Program& program) {
  std::vector<std::string> refused;
  const nlohmann::json report = program.Report();
  if (!report.contains("spatial")) return refused;
  for (const auto& one : report["spatial"]["refused"]) refused.push_back(one["what"]);
  return refused;
}

constexpr NamedPlan::Operation kRelu = {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, std::nullopt,
                                        CUDNN_POINTWISE_RELU_FWD};

struct NamedCase {
  NamedPlan::Operation operation;
  std::string name;
};

std::vector<NamedCase> NamedCases() {
  constexpr auto kNorm = CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR;
  constexpr auto kNormGradient = CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR;
  return {
      {{kNorm, CUDNN_LAYER_NORM}, "layer normalisation (NORM_FORWARD)"},
      {{kNorm, CUDNN_INSTANCE_NORM}, "instance normalisation (NORM_FORWARD)"},
      {{kNorm, CUDNN_BATCH_NORM}, "batch normalisation (NORM_FORWARD)"},
      {{kNorm, CUDNN_GROUP_NORM}, "group normalisation (NORM_FORWARD)"},
      {{kNorm, CUDNN_RMS_NORM}, "RMS normalisation (NORM_FORWARD)"},
      {{kNorm}, "normalisation (NORM_FORWARD)"},
      {{kNormGradient, CUDNN_LAYER_NORM}, "the gradient of layer normalisation (NORM_BACKWARD)"},
      {{kNormGradient, CUDNN_INSTANCE_NORM},
       "the gradient of instance normalisation (NORM_BACKWARD)"},
      {{kNormGradient, CUDNN_BATCH_NORM}, "the gradient of batch normalisation (NORM_BACKWARD)"},
      {{kNormGradient, CUDNN_GROUP_NORM}, "the gradient of group normalisation (NORM_BACKWARD)"},
      {{kNormGradient, CUDNN_RMS_NORM}, "the gradient of RMS normalisation (NORM_BACKWARD)"},
      {{CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR},
       "batch normalisation (BN_FINALIZE_STATISTICS)"},
      {{CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR}, "(BN_BWD_WEIGHTS)"},
      {{CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR}, "statistics of channels (GEN_STATS)"},
      {{CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR}, "attention (SDPA_FWD)"},
      {{CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR}, "the gradient of attention (SDPA_BWD)"},
      {{CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR}, "a matrix product"},
      {{CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR}, "a reduction (REDUCTION)"},
      {{CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR}, "resampling (RESAMPLE_FWD)"},
      {{CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR},
       "the gradient of resampling (RESAMPLE_BWD)"},
      {{CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR}, "a concatenation (CONCAT)"},
      {{CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR}, "another shape (RESHAPE)"},
      {{CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR}, "random numbers (RNG)"},
      {{CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, std::nullopt, CUDNN_POINTWISE_GEN_INDEX},
       "the positions of elements (GEN_INDEX)"},
      {{static_cast<cudnnBackendDescriptorType_t>(999)}, "an operation of type 999"}};
}

TEST(GraphSplit, OperationsThatLookBeyondAnElementAreRefusedByName) {
  for (const NamedCase& named : NamedCases()) {
    SCOPED_TRACE(named.name);
    SplitProgram program(SplitInTwo(test::Planned()));
    TakeEveryGraph(program.under);
    EXPECT_EQ(NamedPlan(program, {kRelu, kRelu}).finalized(), CUDNN_STATUS_SUCCESS);
    EXPECT_THAT(RefusedBy(program), IsEmpty());
    // The operation is between a pointwise operation and kOther. The message must name the
    // operation, although kOther would be refused as well.
    constexpr NamedPlan::Operation kOther = {CUDNN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR};
    EXPECT_EQ(NamedPlan(program, {kRelu, named.operation, kOther}).finalized(),
              CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_THAT(RefusedBy(program),
                ElementsAre(AllOf(StartsWith("an operation graph with "), HasSubstr(named.name),
                                  EndsWith(" is not split over ranks"))));
  }
}

TEST(GraphSplit, WhatIsBesideAConvolutionIsNamed) {
  SplitProgram program(SplitInTwo(test::Planned()));
  TakeEveryGraph(program.under);
  EXPECT_EQ(NamedPlan(program, {{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR},
                                {CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR}})
                .finalized(),
            CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(RefusedBy(program),
              ElementsAre("a convolution of the graph API that ucudnn cannot read is not split: it "
                          "has statistics of channels (GEN_STATS)"));
}

TEST(GraphSplit, AnOperationThatNobodySawMadeHasNoName) {
  SplitProgram program(SplitInTwo(test::Planned()));
  TakeEveryGraph(program.under);
  NamedPlan::Operation unseen = {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR};
  unseen.is_seen = false;
  EXPECT_EQ(NamedPlan(program, {unseen}).finalized(), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(RefusedBy(program).size(), 1u);
}

TEST(GraphSplit, APlanThatWasMadeForOwnCallsIsRefusedByNameWhereTheyAreSplit) {
  SplitProgram program(SplitInTwo(test::Planned()));
  TakeEveryGraph(program.under);
  Splitter::EnableThread(false);
  const NamedPlan plan(program, {{CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR}});
  EXPECT_EQ(plan.finalized(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(program.hooked.cudnnBackendExecute(program.handle, plan.get(), nullptr),
            CUDNN_STATUS_SUCCESS);
  Splitter::EnableThread(true);
  const auto is_named = ElementsAre(HasSubstr("an operation graph with attention (SDPA_FWD)"));
  EXPECT_EQ(program.hooked.cudnnBackendExecute(program.handle, plan.get(), nullptr),
            CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(RefusedBy(program), is_named);
  EXPECT_EQ(
      program.interposer.graph().PopulateCudaGraph(program.handle, plan.get(), nullptr, nullptr),
      CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(RefusedBy(program), is_named);
}

}  // namespace
}  // namespace ucudnn::interposer
