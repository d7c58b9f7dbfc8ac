// Tests how frameworks get and run plans of the graph API. Each framework has its own order of
// calls. An execution must keep to the workspace that the plan reports, and its results must equal
// those of the undivided plan.
#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

using cudnn::BackendDescriptor;
using test::Graph;

constexpr int kMostResults = 32;

class GraphProtocols : public ::testing::TestWithParam<Operation> {
 protected:
  GraphProtocols() : problem_(Problem(GetParam())) {
    Program program{Options()};
    const Graph graph(problem_, {}, program.real, {program.handle});
    for (int engine = 0; engine < kMostEngines; ++engine) {
      const auto plan = graph.Plan(engine);
      if (!plan) continue;
      const size_t need = *cudnn::PlanWorkspace(program.real, plan->get());
      limit_ = std::max(limit_, need / 2);
      if (expected_.empty()) expected_ = program.Run(program.real, problem_, plan->get(), {});
    }
    EXPECT_GT(limit_, 0u);
  }
  Options Limited() const {
    Options options;
    options.workspace_limit = limit_;
    options.policy = BatchSizePolicy::kPowerOfTwo;
    return options;
  }

  // Returns the configurations of the heuristics' list, best first.
  static std::vector<BackendDescriptor> Configurations(const cudnn::Functions& functions,
                                                       const Graph& graph,
                                                       cudnnBackendHeurMode_t mode) {
    auto heuristics = BackendDescriptor::Create(functions, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    EXPECT_TRUE(heuristics.ok());
    const cudnnBackendDescriptor_t of = graph.get();
    EXPECT_TRUE(
        heuristics
            ->Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &of)
            .ok());
    EXPECT_TRUE(heuristics->Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode).ok());
    EXPECT_TRUE(heuristics->Finalize().ok());
    std::vector<BackendDescriptor> results;
    std::vector<cudnnBackendDescriptor_t> filled;
    for (int i = 0; i < kMostResults; ++i) {
      auto result = BackendDescriptor::Create(functions, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      filled.push_back(result->get());
      results.push_back(std::move(*result));
    }
    int64_t count = 0;
    EXPECT_EQ(functions.cudnnBackendGetAttribute(heuristics->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostResults,
                                                 &count, filled.data()),
              CUDNN_STATUS_SUCCESS);
    results.resize(static_cast<size_t>(count));
    EXPECT_GT(count, 1);
    return results;
  }
  static bool Complete(BackendDescriptor& plan, cudnnHandle_t handle,
                       cudnnBackendDescriptor_t configuration) {
    return plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle).ok() &&
           plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    &configuration)
               .ok() &&
           plan.Finalize().ok();
  }
  static std::optional<BackendDescriptor> Build(const cudnn::Functions& functions,
                                                cudnnHandle_t handle,
                                                cudnnBackendDescriptor_t configuration) {
    auto plan = BackendDescriptor::Create(functions, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (!plan.ok() || !Complete(*plan, handle, configuration)) return std::nullopt;
    return std::move(*plan);
  }

  // Runs the plan in the workspace that it reports, and returns that workspace. Results may differ
  // by 0.01, because some engines transform and round their data.
  size_t ExpectKept(Program& program, cudnnBackendDescriptor_t plan) {
    const size_t bytes = *cudnn::PlanWorkspace(program.hooked, plan);
    const Values got = program.Run(program.hooked, problem_, plan, {});
    EXPECT_EQ(got.size(), expected_.size());
    size_t wrong = 0;
    for (size_t i = 0; i < std::min(got.size(), expected_.size()); ++i) {
      wrong += std::abs(got[i] - expected_[i]) > 0.01f ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0u);
    return bytes;
  }

  const ConvolutionProblem problem_;
  size_t limit_ = 0;  // half of the largest need of an undivided plan
  Values expected_;
};

TEST_P(GraphProtocols, PyTorchBenchmarkTimesAllPlans) {
  Program program(Limited());
  const Graph graph(problem_, {}, program.hooked, {program.handle});
  std::vector<std::pair<size_t, BackendDescriptor>> plans;
  for (BackendDescriptor& configuration :
       Configurations(program.hooked, graph, CUDNN_HEUR_MODE_A)) {
    auto plan = Build(program.hooked, program.handle, configuration.get());
    if (!plan) continue;
    const size_t bytes = *cudnn::PlanWorkspace(program.hooked, plan->get());
    plans.emplace_back(bytes, std::move(*plan));
  }
  // PyTorch drops the plans for whose workspace it has no memory: here those above limit_.
  std::erase_if(plans, [&](const auto& plan) { return plan.first > limit_; });
  ASSERT_FALSE(plans.empty());
  for (int round = 0; round < 2; ++round) {
    for (const auto& [bytes, plan] : plans) EXPECT_EQ(ExpectKept(program, plan.get()), bytes);
  }
}

TEST_P(GraphProtocols, PyTorchTakesTheFirstThatWorks) {
  Program program(Limited());
  const Graph graph(problem_, {}, program.hooked, {program.handle});
  for (BackendDescriptor& configuration :
       Configurations(program.hooked, graph, CUDNN_HEUR_MODE_A)) {
    const auto plan = Build(program.hooked, program.handle, configuration.get());
    if (!plan) continue;
    EXPECT_LE(ExpectKept(program, plan->get()), limit_);
    ExpectKept(program, plan->get());
    return;
  }
  FAIL() << "no plan works";
}

TEST_P(GraphProtocols, OnnxRuntimeReadsTheWorkspaceBeforeBuilding) {
  Program program(Limited());
  const Graph graph(problem_, {}, program.hooked, {program.handle});
  int built = 0;
  for (BackendDescriptor& configuration :
       Configurations(program.hooked, graph, CUDNN_HEUR_MODE_B)) {
    int64_t told = -1, count = 0;
    ASSERT_EQ(program.hooked.cudnnBackendGetAttribute(configuration.get(),
                                                      CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                                      CUDNN_TYPE_INT64, 1, &count, &told),
              CUDNN_STATUS_SUCCESS);
    if (static_cast<size_t>(told) > limit_) continue;
    const auto plan = Build(program.hooked, program.handle, configuration.get());
    ASSERT_TRUE(plan);
    EXPECT_EQ(ExpectKept(program, plan->get()), static_cast<size_t>(told));
    ++built;
  }
  EXPECT_GT(built, 1);
}

// An engine's index and knobs, in the form that frameworks serialise.
struct Serialised {
  int engine = -1;
  Graph::Knobs knobs;
  size_t workspace_bytes = 0;
};
Serialised Serialise(const cudnn::Functions& real, cudnnBackendDescriptor_t plan) {
  const auto read = cudnn::ReadTemplate(real, plan);
  EXPECT_TRUE(read.ok()) << read.message();
  const EngineId::Graph* const engine = read->convolution.engine.graph();
  EXPECT_NE(engine, nullptr) << read->convolution.engine;
  if (engine == nullptr) return {};
  return {static_cast<int>(engine->index), engine->knobs};
}

TEST_P(GraphProtocols, XlaBuildsAPlanAgainFromItsEngineAndKnobs) {
  Options options = Limited();
  options.tuning.on = false;
  {
    // The first plan of the heuristics' list needs more than this limit.
    Program program{Options()};
    const Graph graph(problem_, {}, program.real, {program.handle});
    const auto listed = Configurations(program.real, graph, CUDNN_HEUR_MODE_A);
    const auto first = Build(program.real, program.handle, listed[0].get());
    ASSERT_TRUE(first);
    options.workspace_limit = *cudnn::PlanWorkspace(program.real, first->get()) - 1;
  }
  test::MemoryStore store;
  std::vector<Serialised> kept;
  {
    Program program(options, nullptr, &store);
    const cudnn::PlanDevice device{program.handle};
    const Graph whole(problem_, {}, program.real, device);
    const Graph part(WithBatch(problem_, 2), {}, program.real, device);
    for (BackendDescriptor& configuration :
         Configurations(program.real, whole, CUDNN_HEUR_MODE_A)) {
      const auto plan = Build(program.real, program.handle, configuration.get());
      ASSERT_TRUE(plan);
      const Serialised listed = Serialise(program.real, plan->get());
      program.Measured(whole, listed.engine, 100, listed.knobs);
      program.Measured(part, listed.engine, 1, listed.knobs);
    }
    const Graph graph(problem_, {}, program.hooked, device);
    for (BackendDescriptor& configuration :
         Configurations(program.hooked, graph, CUDNN_HEUR_MODE_A)) {
      const auto plan = Build(program.hooked, program.handle, configuration.get());
      ASSERT_TRUE(plan);
      kept.push_back(Serialise(program.real, plan->get()));
      kept.back().workspace_bytes = ExpectKept(program, plan->get());
    }
    // The store now also has larger pieces, which are faster still.
    const Graph larger(WithBatch(problem_, 4), {}, program.real, device);
    for (const Serialised& serialised : kept) {
      program.Measured(larger, serialised.engine, 0.1, serialised.knobs);
    }
  }
  ASSERT_FALSE(store.promises.empty());
  Program next(options, nullptr, &store);
  for (const Serialised& serialised : kept) {
    const Graph graph(problem_, {}, next.hooked, {next.handle});
    const auto plan = graph.Plan(serialised.engine, serialised.knobs);
    ASSERT_TRUE(plan);
    const size_t bytes = ExpectKept(next, plan->get());
    // If the first program reported a workspace within the limit, the next program reports the same
    // workspace. A workspace above the limit may become smaller.
    const bool promised = serialised.workspace_bytes <= *options.workspace_limit;
    if (promised) {
      EXPECT_EQ(bytes, serialised.workspace_bytes) << "engine " << serialised.engine;
    }
    EXPECT_LE(bytes, serialised.workspace_bytes) << "engine " << serialised.engine;
  }
}

TEST_P(GraphProtocols, ADescriptorThatIsInitializedAgainIsAnotherPlan) {
  Program program(test::Planned());
  const cudnn::PlanDevice device{program.handle};
  const ConvolutionProblem single = WithBatch(problem_, 1);
  program.Measured(Graph(problem_, {}, program.real, device), kEngine, 100);
  program.Measured({WithBatch(problem_, 2), {}, program.real, device}, kEngine, 1);
  const Graph graph(problem_, {}, program.hooked, device);
  auto plan = graph.Plan(kEngine);
  ASSERT_TRUE(plan);
  ExpectKept(program, plan->get());
  ASSERT_EQ(program.Report()["kernels"][0]["plan"][0]["count"], problem_.n / 2);

  ASSERT_EQ(program.hooked.cudnnBackendInitialize(plan->get()), CUDNN_STATUS_SUCCESS);
  const Graph of_one(single, {}, program.hooked, device);
  const auto first = Configurations(program.hooked, of_one, CUDNN_HEUR_MODE_A);
  ASSERT_TRUE(Complete(*plan, program.handle, first[0].get()));
  EXPECT_EQ(*cudnn::PlanWorkspace(program.hooked, plan->get()),
            *cudnn::PlanWorkspace(program.real, plan->get()));
  EXPECT_EQ(program.Run(program.hooked, single, plan->get(), {}),
            program.Run(program.real, single, plan->get(), {}));
}

TEST_P(GraphProtocols, APackThatIsInitializedAgainHoldsNothing) {
  Program program{Options()};
  auto pack = BackendDescriptor::Create(program.hooked, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  ASSERT_TRUE(pack.ok());
  const int64_t uid = 7;
  void* pointer = &program;
  ASSERT_TRUE(pack->Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, &uid).ok());
  for (const auto name :
       {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_ATTR_VARIANT_PACK_WORKSPACE}) {
    ASSERT_TRUE(pack->Set(name, CUDNN_TYPE_VOID_PTR, 1, &pointer).ok());
  }
  EXPECT_EQ(FindPack(pack->get())->Find(uid), pointer);
  ASSERT_EQ(program.hooked.cudnnBackendInitialize(pack->get()), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(FindPack(pack->get())->Find(uid), nullptr);
  EXPECT_EQ(FindPack(pack->get())->workspace, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Operations, GraphProtocols,
                         ::testing::Values(Operation::kForward, Operation::kBackwardData,
                                           Operation::kBackwardFilter),
                         [](const auto& given) { return OperationName(given.param); });

}  // namespace
}  // namespace ucudnn::interposer
