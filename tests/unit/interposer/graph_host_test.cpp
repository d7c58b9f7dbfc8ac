// The graph API on the stand-in's real arithmetic: a program that makes operation graphs, asks
// heuristics, builds plans and runs them gets what the undivided plans give, in less workspace.
#include <cuda.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convolution/partial_sums.h"
#include "deviceless_cudnn.h"
#include "interposer/interposer.h"
#include "memory_store.h"
#include "tests/unit/cudnn/standin.h"
#include "tuning/measure.h"

namespace ucudnn::interposer {
namespace {

using cudnn::test::GraphOptions;
using ::testing::HasSubstr;
using Values = std::vector<float>;
using Bytes = std::vector<std::byte>;

// -2 to 2.
void Encode(DataType type, int value, std::byte* to) {
  const auto number = static_cast<float>(value);
  if (type == DataType::kFloat) {
    std::memcpy(to, &number, sizeof number);
    return;
  }
  const uint16_t magnitudes[] = {0, uint16_t(type == DataType::kHalf ? 0x3c00 : 0x3f80), 0x4000};
  const auto bits = static_cast<uint16_t>(magnitudes[std::abs(value)] | (value < 0 ? 0x8000 : 0));
  std::memcpy(to, &bits, sizeof bits);
}

float Decode(DataType type, const std::byte* from) {
  float value;
  if (type == DataType::kFloat) {
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  if (type == DataType::kHalf) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    value = exponent == 0 ? std::ldexp(float(fraction), -24)
                          : std::ldexp(float(1024 + fraction), exponent - 25);
    return bits >> 15 != 0 ? -value : value;
  }
  const uint32_t wide = uint32_t{bits} << 16;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

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
    const size_t element = ElementBytes(problem.type);
    CUdeviceptr buffers[5], workspace = 0;
    std::vector<void*> pointers;
    for (int i = 0; i < 5; ++i) {
      Bytes values(elements[i] * element);
      for (size_t at = 0; at < elements[i]; ++at) {
        // Few enough gradients of the output for sums that 16 bits hold.
        const bool left_out = element == 2 && i == 2 && at % 37 != 0;
        const int value = left_out ? 0 : static_cast<int>((at * 7 + at / 11 + i) % 5) - 2;
        Encode(problem.type, value, &values[at * element]);
      }
      EXPECT_EQ(cuMemAlloc(&buffers[i], values.size()), CUDA_SUCCESS);
      EXPECT_EQ(cuMemcpyHtoD(buffers[i], values.data(), values.size()), CUDA_SUCCESS);
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
    Bytes written(elements[out] * element);
    EXPECT_EQ(cuMemcpyDtoH(written.data(), buffers[out], written.size()), CUDA_SUCCESS);
    Values result;
    for (size_t at = 0; at < written.size(); at += element) {
      result.push_back(Decode(problem.type, &written[at]));
    }
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

struct Case {
  const char* name;
  Operation operation;
  bool fused;
  DataType type = DataType::kFloat;
};

ConvolutionProblem Problem(const Case& which) {
  ConvolutionProblem problem;
  problem.operation = which.operation;
  problem.type = which.type;
  problem.n = 8;
  problem.c = 4;
  problem.k = 8;
  problem.x = {1, 12, 12};
  problem.w = {1, 3, 3};
  problem.pad = {0, 1, 1};
  SetPackedStrides(problem);
  return problem;
}

class GraphHost : public ::testing::TestWithParam<Case> {};

// Whole numbers: what is wrong is wrong by one at the least. Engines that transform round.
void ExpectSame(const Values& got, const Values& expected, const std::string& who) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 0.01) << who << " at " << i;
  }
}

TEST_P(GraphHost, EveryPlanIsRightInsideTheLimit) {
  const ConvolutionProblem problem = Problem(GetParam());
  GraphOptions graph_options;
  graph_options.residual = graph_options.bias = graph_options.relu = GetParam().fused;
  int plans = 0;
  constexpr int kMostEngines = 8;
  for (int engine = 0; engine < kMostEngines; ++engine) {
    for (const int part : {0, 1, 2, 4}) {
      // What the plan may need of what it does need.
      Program genuine{Options()};
      const cudnn::test::Graph plain(problem, graph_options, genuine.genuine, {genuine.handle});
      const auto whole = plain.Plan(engine);
      if (!whole) continue;
      const size_t need = *cudnn::PlanWorkspace(genuine.genuine, whole->get());
      const Values expected = genuine.Run(genuine.genuine, problem, whole->get(), graph_options);
      Options options;
      options.workspace_limit = part == 0 ? 0 : need / part;
      Program program(options);
      const cudnn::test::Graph graph(problem, graph_options, program.hooked, {program.handle});
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
      // What could not be brought under the limit says so.
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
      EXPECT_EQ(images, problem.n) << kernel.dump(1);
    }
  }
  EXPECT_GT(plans, 0);
}

// Every engine divided, because a store says that pieces of two images are fast.
TEST_P(GraphHost, PiecesComputeWhatTheWholeDoes) {
  constexpr int kPart = 2, kMostEngines = 8;
  const ConvolutionProblem problem = Problem(GetParam());
  ConvolutionProblem part = problem;
  part.n = kPart;
  GraphOptions graph_options;
  graph_options.residual = graph_options.bias = graph_options.relu = GetParam().fused;
  int plans = 0;
  for (int engine = 0; engine < kMostEngines; ++engine) {
    Options options;
    options.tuning.on = false;
    options.policy = BatchSizePolicy::kPowerOfTwo;
    Program program(options);
    const cudnn::PlanDevice device{program.handle};
    const cudnn::test::Graph plain(problem, graph_options, program.genuine, device);
    const cudnn::test::Graph plain_part(part, graph_options, program.genuine, device);
    const cudnn::test::Graph hooked(problem, graph_options, program.hooked, device);
    const auto whole = plain.Plan(engine), piece = plain_part.Plan(engine);
    if (!whole) continue;
    ASSERT_TRUE(piece);
    const auto read = cudnn::ReadTemplate(program.genuine, whole->get());
    ASSERT_TRUE(read.ok()) << read.message();
    // In bf16 a transform's rounding would hide wrong results: no plan of it is trusted.
    if (problem.type == DataType::kBfloat16 && read->numeric != planning::NumericClass::kDirect) {
      continue;
    }
    const auto platform = tuning::DescribePlatform(*cuda::GetDriver(), program.genuine);
    ASSERT_TRUE(platform.ok());
    const size_t need = *cudnn::PlanWorkspace(program.genuine, whole->get());
    const size_t part_need = *cudnn::PlanWorkspace(program.genuine, piece->get());
    const size_t sum_bytes = SumsPartials(problem) ? PartialSumBytes(problem) : 0;
    if (part_need + sum_bytes > need) continue;  // takes no more memory than the whole
    ASSERT_TRUE(program.store
                    .Write(read->plan.problem, *platform,
                           {{{read->plan.engine, problem.n, 100, need, true}, 5, false},
                            {{read->plan.engine, kPart, 1, part_need, true}, 5, false},
                            {{kPartialSum, kPartialSumBatch, 1, sum_bytes, true}, 5, false}},
                           {})
                    .ok());
    const Values expected = program.Run(program.genuine, problem, whole->get(), graph_options);
    const auto plan = hooked.Plan(engine);
    ASSERT_TRUE(plan);
    ExpectSame(program.Run(program.hooked, problem, plan->get(), graph_options), expected,
               read->plan.engine);
    const auto report = program.Report();
    EXPECT_THAT(report["fallbacks"].dump(), "[]");
    const auto& runs = report["kernels"][0]["plan"];
    ASSERT_EQ(runs.size(), 1u) << report.dump(1);
    EXPECT_EQ(runs[0]["engine"], read->plan.engine);
    EXPECT_EQ(runs[0]["micro_batch"], kPart);
    EXPECT_EQ(runs[0]["count"], problem.n / kPart);
    ++plans;
  }
  EXPECT_GE(plans, SumsPartials(problem) ? 1 : 3);
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, GraphHost,
    ::testing::Values(
        Case{"forward", Operation::kForward, false}, Case{"fused", Operation::kForward, true},
        Case{"backward_data", Operation::kBackwardData, false},
        Case{"backward_filter", Operation::kBackwardFilter, false},
        Case{"backward_filter_fp16", Operation::kBackwardFilter, false, DataType::kHalf},
        Case{"backward_filter_bf16", Operation::kBackwardFilter, false, DataType::kBfloat16}),
    [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace ucudnn::interposer
