// The graph API on the stand-in's real arithmetic: a program that makes operation graphs, asks
// heuristics, builds plans and runs them gets what the undivided plans give, in less workspace.
#include <cuda.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "deviceless_cudnn.h"
#include "interposer/interposer.h"
#include "memory_store.h"
#include "tests/unit/cudnn/standin.h"

namespace ucudnn::interposer {
namespace {

using cudnn::BackendDescriptor;
using cudnn::test::GraphOptions;
using ::testing::HasSubstr;
using Values = std::vector<float>;

// The program's cuDNN: the interposer's entry points.
Interposer* the_interposer = nullptr;
cudnn::Functions Hooked() {
  cudnn::Functions functions = cudnn::test::StandInGraphs();
  functions.cudnnBackendCreateDescriptor = [](auto type, auto* out) {
    return the_interposer->graph().Create(type, out);
  };
  functions.cudnnBackendDestroyDescriptor = [](auto descriptor) {
    return the_interposer->graph().Destroy(descriptor);
  };
  functions.cudnnBackendSetAttribute = [](auto to, auto name, auto type, int64_t count,
                                          const void* values) {
    return the_interposer->graph().Set(to, name, type, count, values);
  };
  functions.cudnnBackendGetAttribute = [](cudnnBackendDescriptor_t const from, auto name, auto type,
                                          int64_t requested, int64_t* count, void* values) {
    return the_interposer->graph().Get(from, name, type, requested, count, values);
  };
  functions.cudnnBackendFinalize = [](auto descriptor) {
    return the_interposer->graph().Finalize(descriptor);
  };
  functions.cudnnBackendExecute = [](auto handle, auto plan, auto pack) {
    return the_interposer->graph().Execute(handle, plan, pack);
  };
  return functions;
}

class Program {
 public:
  explicit Program(const Options& options) : options_(options) {
    CUdevice device;
    CUcontext context;
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDeviceGet(&device, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    the_interposer = &interposer;
    EXPECT_EQ(interposer.Create(&handle), CUDNN_STATUS_SUCCESS);
  }
  ~Program() { interposer.Destroy(handle); }

  // Runs `plan` on whole numbers and gives its output.
  Values Run(const cudnn::Functions& functions, const ConvolutionProblem& problem,
             cudnnBackendDescriptor_t plan, const GraphOptions& options) {
    const Spatial output = OutputExtents(problem);
    const size_t y = size_t(problem.n) * problem.k * output[0] * output[1] * output[2];
    const size_t elements[] = {
        size_t(problem.n) * problem.c * problem.x[0] * problem.x[1] * problem.x[2],
        size_t(problem.k) * problem.c * problem.w[0] * problem.w[1] * problem.w[2], y, y,
        size_t(problem.k)};
    const int64_t uids[] = {cudnn::test::kUidX, cudnn::test::kUidW, cudnn::test::kUidY,
                            cudnn::test::kUidResidual, cudnn::test::kUidBias};
    CUdeviceptr buffers[5], workspace = 0;
    std::vector<void*> pointers;
    for (int i = 0; i < 5; ++i) {
      Values values(elements[i]);
      for (size_t at = 0; at < elements[i]; ++at) {
        values[at] = static_cast<float>((at * 7 + at / 11 + i) % 5) - 2;
      }
      EXPECT_EQ(cuMemAlloc(&buffers[i], elements[i] * sizeof(float)), CUDA_SUCCESS);
      EXPECT_EQ(cuMemcpyHtoD(buffers[i], values.data(), elements[i] * sizeof(float)), CUDA_SUCCESS);
      pointers.push_back(reinterpret_cast<void*>(buffers[i]));
    }
    // Exactly what is asked for: the stand-in faults on the byte behind.
    const size_t bytes = *cudnn::PlanWorkspace(functions, plan);
    if (bytes > 0) {
      EXPECT_EQ(cuMemAlloc(&workspace, bytes), CUDA_SUCCESS);
    }
    size_t operands = 3;
    if (options.residual || options.bias) operands = 5;
    // A graph without one of them takes no pointer for it.
    std::vector<int64_t> used(uids, uids + operands);
    std::vector<void*> used_pointers(pointers.begin(), pointers.begin() + operands);
    if (operands == 5 && !options.residual) {
      used.erase(used.begin() + 3);
      used_pointers.erase(used_pointers.begin() + 3);
    }
    EXPECT_EQ(cudnn::ExecutePlan(functions, handle, plan, used, used_pointers,
                                 reinterpret_cast<void*>(workspace)),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    const int out = problem.operation == Operation::kForward        ? 2
                    : problem.operation == Operation::kBackwardData ? 0
                                                                    : 1;
    Values result(elements[out]);
    EXPECT_EQ(cuMemcpyDtoH(result.data(), buffers[out], result.size() * sizeof(float)),
              CUDA_SUCCESS);
    for (const CUdeviceptr buffer : buffers) cuMemFree(buffer);
    if (bytes > 0) cuMemFree(workspace);
    return result;
  }
  nlohmann::json Report() { return nlohmann::json::parse(interposer.report().Json("on", 0)); }

  const cudnn::Functions genuine = cudnn::test::StandInGraphs();
  const Options options_;
  test::MemoryStore store;
  Interposer interposer{options_, genuine, cuda::GetDriver(), &store};
  const cudnn::Functions hooked = Hooked();
  cudnnHandle_t handle = nullptr;
};

ConvolutionProblem Problem(Operation operation) {
  ConvolutionProblem problem;
  problem.operation = operation;
  problem.n = 8;
  problem.c = 4;
  problem.k = 8;
  problem.x = {1, 12, 12};
  problem.w = {1, 3, 3};
  problem.pad = {0, 1, 1};
  SetPackedStrides(problem);
  return problem;
}

struct Case {
  const char* name;
  Operation operation;
  bool fused;
};

class GraphHost : public ::testing::TestWithParam<Case> {};

TEST_P(GraphHost, EveryPlanIsRightInsideTheLimit) {
  const ConvolutionProblem problem = Problem(GetParam().operation);
  GraphOptions graph_options;
  graph_options.residual = graph_options.bias = graph_options.relu = GetParam().fused;
  size_t largest = 0;  // what any engine needs
  {
    Program program{Options()};
    const cudnn::test::Graph graph(problem, graph_options, program.genuine, {program.handle});
    for (int engine = 0; engine < graph.EngineCount(); ++engine) {
      const auto plan = graph.Plan(engine);
      if (plan) largest = std::max(largest, *cudnn::PlanWorkspace(program.genuine, plan->get()));
    }
  }
  int divided = 0;
  for (const size_t limit : {size_t{0}, largest / 3, largest / 2, largest - 1}) {
    Options options;
    options.workspace_limit = limit;
    Program program(options);
    const cudnn::test::Graph plain(problem, graph_options, program.genuine, {program.handle});
    const cudnn::test::Graph hooked(problem, graph_options, program.hooked, {program.handle});
    ASSERT_TRUE(plain.ok() && hooked.ok());
    for (int engine = 0; engine < plain.EngineCount(); ++engine) {
      const auto whole = plain.Plan(engine);
      if (!whole) continue;
      const auto plan = hooked.Plan(engine);
      ASSERT_TRUE(plan);
      const size_t need = *cudnn::PlanWorkspace(program.genuine, whole->get());
      const size_t promised = *cudnn::PlanWorkspace(program.hooked, plan->get());
      EXPECT_LE(promised, need);
      const Values expected = program.Run(program.genuine, problem, whole->get(), graph_options);
      for (int call = 0; call < 2; ++call) {
        EXPECT_EQ(program.Run(program.hooked, problem, plan->get(), graph_options), expected)
            << "engine " << engine << " limit " << limit;
      }
    }
    for (const auto& kernel : program.Report()["kernels"]) {
      EXPECT_EQ(kernel["api"], "graph");
      int64_t images = 0, pieces = 0;
      for (const auto& run : kernel["plan"]) {
        images += run["micro_batch"].get<int64_t>() * run["count"].get<int64_t>();
        pieces += run["count"].get<int64_t>();
      }
      divided += pieces > 1;
      EXPECT_EQ(images, problem.n) << kernel.dump(1);
    }
  }
  EXPECT_GT(divided, 0);
}

INSTANTIATE_TEST_SUITE_P(Graphs, GraphHost,
                         ::testing::Values(Case{"forward", Operation::kForward, false},
                                           Case{"fused", Operation::kForward, true},
                                           Case{"backward_data", Operation::kBackwardData, false},
                                           Case{"backward_filter", Operation::kBackwardFilter,
                                                false}),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace ucudnn::interposer
