// A program that uses cuDNN's graph API on the stand-in's real arithmetic, through an interposer.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convolution/partial_sums.h"
#include "interposer/interposer.h"
#include "program_parts.h"
#include "tests/support/device.h"
#include "tests/support/deviceless_cudnn.h"
#include "tests/support/memory_store.h"
#include "tests/support/options.h"
#include "tests/support/problem.h"
#include "tests/support/stand_in.h"

namespace ucudnn::interposer {

using test::GraphOptions;
using test::PlatformOf;
using test::StoreRows;
using test::WithBatch;
using Values = std::vector<float>;

// kPart is the number of images of a piece. kEngine is the stand-in's GEMM, which is exact on whole
// numbers.
constexpr int kPart = 2, kEngine = 1;
constexpr int kMostEngines = 8;  // the stand-in's engines have lower indices
constexpr size_t kAmple = size_t{4} << 20;

// Leaves the output of pieces unchanged.
inline cudnnStatus_t SkipPieces(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                cudnnBackendDescriptor_t pack) {
  const cudnn::Functions real = test::StandInGraphs();
  const auto read = cudnn::ReadTemplate(real, plan);
  if (read.ok() && read->convolution.problem.n < 8) return CUDNN_STATUS_SUCCESS;
  return real.cudnnBackendExecute(handle, plan, pack);
}

// Finalizes only plans of kEngine.
inline cudnnStatus_t FinalizeOwnEngine(cudnnBackendDescriptor_t descriptor) {
  const cudnn::Functions real = test::StandInGraphs();
  const cudnnStatus_t status = real.cudnnBackendFinalize(descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const auto read = cudnn::ReadTemplate(real, descriptor);
  const bool other = read.ok() && read->convolution.engine.graph()->index != kEngine;
  return other ? CUDNN_STATUS_NOT_SUPPORTED : status;
}

// Writes a value from -2 to 2.
inline void Encode(DataType type, int value, std::byte* to) {
  const auto number = static_cast<float>(value);
  if (type == DataType::kFloat) {
    std::memcpy(to, &number, sizeof number);
    return;
  }
  const uint16_t magnitudes[] = {0, uint16_t(type == DataType::kHalf ? 0x3c00 : 0x3f80), 0x4000};
  const auto bits = static_cast<uint16_t>(magnitudes[std::abs(value)] | (value < 0 ? 0x8000 : 0));
  std::memcpy(to, &bits, sizeof bits);
}

inline float Decode(DataType type, const std::byte* from) {
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

// Hooked() returns the cuDNN that a program calls: the entry points of the_interposer, which the
// constructor of Program sets.
inline Interposer* the_interposer = nullptr;
inline cudnn::Functions Hooked() {
  cudnn::Functions functions = test::StandInGraphs();
  functions.cudnnBackendCreateDescriptor = [](auto type, auto* out) {
    return the_interposer->graph().Create(type, out);
  };
  functions.cudnnBackendDestroyDescriptor = [](auto descriptor) {
    return the_interposer->graph().Destroy(descriptor);
  };
  functions.cudnnBackendInitialize = [](auto descriptor) {
    return the_interposer->graph().Initialize(descriptor);
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

// Device memory of one convolution, with a guard on both sides of the workspace.
class Operands {
 public:
  Operands(const ConvolutionProblem& problem, const GraphOptions& options, size_t workspace_bytes)
      : bytes_(workspace_bytes) {
    const Spatial output = OutputExtents(problem);
    Add(test::kUidX, problem.type,
        size_t(problem.n) * problem.c * problem.x[0] * problem.x[1] * problem.x[2]);
    Add(test::kUidW, problem.type,
        size_t(problem.k) * (problem.c / problem.groups) * problem.w[0] * problem.w[1] *
            problem.w[2]);
    Add(test::kUidY, problem.type,
        size_t(problem.n) * problem.k * output[0] * output[1] * output[2]);
    // Operands that the graph does not have get no memory.
    for (const auto& tensor : test::FusedTensors(problem, options)) {
      Add(tensor.uid, tensor.type, tensor.Elements());
    }
    out_ = problem.operation == Operation::kForward        ? 2
           : problem.operation == Operation::kBackwardData ? 0
                                                           : 1;
    EXPECT_EQ(cuMemAlloc(&workspace_, bytes_ + 2 * kGuard), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8(workspace_, kPattern, bytes_ + 2 * kGuard), CUDA_SUCCESS);
    Fill(0);
  }
  ~Operands() {
    for (void* pointer : std::set(pointers_.begin(), pointers_.end())) {
      cuMemFree(reinterpret_cast<CUdeviceptr>(pointer));
    }
    cuMemFree(workspace_);
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  // Fills all tensors, the output included, with whole numbers.
  void Fill(int seed) {
    for (size_t i = 0; i < pointers_.size(); ++i) {
      const DataType type = types_[i];
      const size_t element = ElementBytes(type);
      std::vector<std::byte> values(elements_[i] * element);
      for (size_t at = 0; at < elements_[i]; ++at) {
        // In 16-bit types most elements of y are 0, so that filter gradients, which sum products
        // with y, are exact.
        const bool left_out = element == 2 && i == 2 && at % 37 != 0;
        const int value =
            left_out ? 0 : static_cast<int>((at * 7 + at / 11 + i + seed * 3) % 5) - 2;
        Encode(type, value, &values[at * element]);
      }
      EXPECT_EQ(
          cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(pointers_[i]), values.data(), values.size()),
          CUDA_SUCCESS);
    }
  }
  // Places the tensor `uid`, which has the output's size, in the output's memory from now on.
  void PutIntoOutput(int64_t uid) {
    const auto i = static_cast<size_t>(std::find(uids_.begin(), uids_.end(), uid) - uids_.begin());
    EXPECT_EQ(elements_.at(i), elements_[out_]);
    EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(pointers_[i])), CUDA_SUCCESS);
    pointers_[i] = pointers_[out_];
  }
  // Executes the plan in the workspace whose address is moved by `beyond` bytes, at most kGuard.
  cudnnStatus_t Execute(const cudnn::Functions& functions, cudnnHandle_t handle,
                        cudnnBackendDescriptor_t plan, size_t beyond = 0) const {
    return ExecuteIn(functions, handle, plan,
                     reinterpret_cast<void*>(workspace_ + kGuard + beyond));
  }
  cudnnStatus_t ExecuteWithoutWorkspace(const cudnn::Functions& functions, cudnnHandle_t handle,
                                        cudnnBackendDescriptor_t plan) const {
    return ExecuteIn(functions, handle, plan, nullptr);
  }
  // Returns the output. Waits for the device.
  Values Output() const { return Content(uids_[out_]); }
  // Returns the tensor's content. Waits for the device.
  Values Content(int64_t uid) const {
    const auto i = static_cast<size_t>(std::find(uids_.begin(), uids_.end(), uid) - uids_.begin());
    const size_t element = ElementBytes(types_.at(i));
    std::vector<std::byte> written(elements_[i] * element);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(
        cuMemcpyDtoH(written.data(), reinterpret_cast<CUdeviceptr>(pointers_[i]), written.size()),
        CUDA_SUCCESS);
    Values result;
    for (size_t at = 0; at < written.size(); at += element) {
      result.push_back(Decode(types_[i], &written[at]));
    }
    return result;
  }
  // Returns whether nothing wrote next to the workspace. Waits for the device.
  bool GuardsAreIntact() const {
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    bool intact = true;
    for (const CUdeviceptr guard : {workspace_, workspace_ + kGuard + bytes_}) {
      std::vector<unsigned char> content(kGuard);
      EXPECT_EQ(cuMemcpyDtoH(content.data(), guard, kGuard), CUDA_SUCCESS);
      intact &= content == std::vector<unsigned char>(kGuard, kPattern);
    }
    return intact;
  }

 private:
  cudnnStatus_t ExecuteIn(const cudnn::Functions& functions, cudnnHandle_t handle,
                          cudnnBackendDescriptor_t plan, void* workspace) const {
    return cudnn::WithPack(functions, {uids_, pointers_, workspace},
                           [&](cudnnBackendDescriptor_t pack) {
                             return functions.cudnnBackendExecute(handle, plan, pack);
                           });
  }
  void Add(int64_t uid, DataType type, size_t elements) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc(&address, elements * ElementBytes(type)), CUDA_SUCCESS);
    types_.push_back(type);
    elements_.push_back(elements);
    uids_.push_back(uid);
    pointers_.push_back(reinterpret_cast<void*>(address));
  }

  static constexpr size_t kGuard = 256;
  static constexpr unsigned char kPattern = 0xa5;
  const size_t bytes_;
  std::vector<DataType> types_;
  std::vector<size_t> elements_;
  std::vector<int64_t> uids_;
  std::vector<void*> pointers_;
  size_t out_ = 0;
  CUdeviceptr workspace_ = 0;
};

class Program {
 public:
  // `execute`, if not null, replaces the stand-in's execution of plans. `shared`, if not null, is a
  // store that other programs use, too.
  explicit Program(const Options& options,
                   decltype(cudnn::Functions::cudnnBackendExecute) execute = nullptr,
                   planning::MeasurementStore* shared = nullptr)
      : options_(options), store(shared != nullptr ? *shared : own_store_) {
    if (execute != nullptr) under.cudnnBackendExecute = execute;
    test::MakeContextCurrent();
    the_interposer = &interposer;
    EXPECT_EQ(interposer.sessions().Create(&handle), CUDNN_STATUS_SUCCESS);
  }
  ~Program() { interposer.sessions().Destroy(handle); }

  // Runs `plan` on whole numbers, in exactly the workspace that it asks for, and returns its
  // output.
  Values Run(const cudnn::Functions& functions, const ConvolutionProblem& problem,
             cudnnBackendDescriptor_t plan, const GraphOptions& options) {
    Operands operands(problem, options, *cudnn::PlanWorkspace(functions, plan));
    EXPECT_EQ(operands.Execute(functions, handle, plan), CUDNN_STATUS_SUCCESS);
    EXPECT_TRUE(operands.GuardsAreIntact());
    return operands.Output();
  }
  // Stores that the plan of `engine` takes `time_ms`.
  void Measured(const test::Graph& graph_of_images, int engine, double time_ms,
                const test::Graph::Knobs& knobs = {}) {
    const auto plan = graph_of_images.Plan(engine, knobs);
    ASSERT_TRUE(plan);
    const auto read = cudnn::ReadTemplate(real, plan->get());
    ASSERT_TRUE(read.ok()) << read.message();
    const ConvolutionProblem& problem = read->convolution.problem;
    StoreRows(store, real, problem,
              {{{read->convolution.engine, problem.n, time_ms,
                 *cudnn::PlanWorkspace(real, plan->get()), read->deterministic},
                5,
                true}});
  }
  nlohmann::json Report() { return nlohmann::json::parse(interposer.reporter().Text()); }

  const cudnn::Functions real = test::StandInGraphs();
  cudnn::Functions under = real;  // what the interposer calls
  const Options options_;
  test::MemoryStore own_store_;
  planning::MeasurementStore& store;
  Interposer interposer{options_, under, cuda::GetDriver(), &store};
  const cudnn::Functions hooked = Hooked();
  cudnnHandle_t handle = nullptr;
};

// Returns the workspace that the stand-in's plan of kEngine needs.
inline size_t NeedOf(const ConvolutionProblem& problem, const GraphOptions& graph_options = {}) {
  const Program program{Options()};
  const test::Graph graph(problem, graph_options, program.real, {program.handle});
  return *cudnn::PlanWorkspace(program.real, graph.Plan(kEngine)->get());
}

inline ConvolutionProblem Problem(Operation operation, DataType type = DataType::kFloat) {
  return test::ProblemWith({.operation = operation, .x = {1, 12, 12}, .type = type});
}

using Reads = test::FusedStep::Reads;
// Scaled multiplies the result by one value per channel. ScaledBiasRelu then adds another value per
// channel and applies a ReLU.
inline GraphOptions Scaled() {
  GraphOptions options;
  options.steps = {{CUDNN_POINTWISE_MUL, Reads::kChannel, {}}};
  return options;
}
inline GraphOptions ScaledBiasRelu() {
  GraphOptions options = Scaled();
  options.steps.push_back({CUDNN_POINTWISE_ADD, Reads::kChannel, {}});
  options.steps.push_back({CUDNN_POINTWISE_RELU_FWD, Reads::kNothing, {}});
  return options;
}
// Returns options of a data gradient that is followed by the gradient of the ReLU before the layer.
inline GraphOptions ReluGradient() {
  GraphOptions options;
  options.steps = {{CUDNN_POINTWISE_RELU_BWD, Reads::kWhole, {}}};
  return options;
}

// Returns options of a forward convolution. If `fused`, a residual, a bias and a ReLU follow it.
inline GraphOptions Fused(bool fused) {
  GraphOptions options;
  options.residual = options.bias = options.relu = fused;
  return options;
}

// A program with one plan of kEngine.
class OnePlan {
 public:
  OnePlan(const ConvolutionProblem& problem, bool fused, const Options& options,
          decltype(cudnn::Functions::cudnnBackendExecute) execute = nullptr,
          planning::MeasurementStore* shared = nullptr)
      : OnePlan(problem, Fused(fused), options, execute, shared) {}
  OnePlan(const ConvolutionProblem& problem, const GraphOptions& graph_options,
          const Options& options, decltype(cudnn::Functions::cudnnBackendExecute) execute = nullptr,
          planning::MeasurementStore* shared = nullptr)
      : problem_(problem),
        graph_options_(graph_options),
        program_(options, execute, shared),
        whole_(problem_, graph_options_, program_.real, {program_.handle}),
        hooked_(problem_, graph_options_, program_.hooked, {program_.handle}) {}

  Program& program() { return program_; }
  const test::Graph& hooked() const { return hooked_; }
  cudnnBackendDescriptor_t plan() const { return plan_->get(); }
  // Returns the workspace size that the program is told for the plan.
  size_t ToldBytes() const { return *cudnn::PlanWorkspace(program_.hooked, plan_->get()); }
  WorkspaceBudget& TheBudget() { return test::BudgetOf(program_.interposer); }
  // Returns the report on the first kernel.
  nlohmann::json Kernel() { return program_.Report()["kernels"][0]; }
  std::string Fallbacks() { return program_.Report()["fallbacks"].dump(); }
  // Returns operands with a workspace of exactly ToldBytes().
  std::unique_ptr<Operands> Memory() {
    return std::make_unique<Operands>(problem_, graph_options_, ToldBytes());
  }
  cudnnStatus_t Execute(const Operands& operands) const {
    return operands.Execute(program_.hooked, program_.handle, plan_->get());
  }
  void Run(const Operands& operands, cudnnHandle_t handle) {
    EXPECT_EQ(operands.Execute(program_.hooked, handle, plan_->get()), CUDNN_STATUS_SUCCESS);
  }
  void Run(const Operands& operands) { Run(operands, program_.handle); }
  Values Undivided(int seed) {
    Operands operands(problem_, graph_options_,
                      *cudnn::PlanWorkspace(program_.real, undivided_->get()));
    operands.Fill(seed);
    EXPECT_EQ(operands.Execute(program_.real, program_.handle, undivided_->get()),
              CUDNN_STATUS_SUCCESS);
    return operands.Output();
  }
  // Expects that `calls` calls with different operands compute what the undivided plan does.
  void ExpectRight(int calls = 3) {
    const auto memory = Memory();
    for (int seed = 1; seed <= calls; ++seed) {
      memory->Fill(seed);
      Run(*memory);
      EXPECT_EQ(memory->Output(), Undivided(seed)) << "seed " << seed << " of " << Kernel();
      EXPECT_TRUE(memory->GuardsAreIntact());
    }
  }

 protected:
  // REQUIRES: the test's measurements are in the store.
  void MakePlans() {
    undivided_ = whole_.Plan(kEngine);
    plan_ = hooked_.Plan(kEngine);
    EXPECT_TRUE(plan_ && undivided_);
  }
  // Stores that a piece of `images` images of `engine` takes `time_ms`.
  void PartsMeasured(int engine, double time_ms, int images = kPart) {
    program_.Measured(
        {WithBatch(problem_, images), graph_options_, program_.real, {program_.handle}}, engine,
        time_ms);
  }
  // Stores the time of summing partials, if the problem sums partials.
  void SumMeasured(int engine, double time_ms) {
    if (!SumsPartials(problem_)) return;
    const auto read = cudnn::ReadTemplate(program_.real, whole_.Plan(engine)->get());
    ASSERT_TRUE(read.ok());
    StoreRows(
        program_.store, program_.real, read->convolution.problem,
        {{{kPartialSum, kPartialSumBatch, time_ms, PartialSumBytes(problem_), true}, 5, true}});
  }

  const ConvolutionProblem problem_;
  const GraphOptions graph_options_;
  Program program_;
  const test::Graph whole_, hooked_;
  std::optional<cudnn::BackendDescriptor> plan_, undivided_;
};

// A stream for the program's handle, and a stream to launch graphs on.
class CaptureSetting {
 public:
  explicit CaptureSetting(OnePlan& subject)
      : subject_(subject), stream_(subject.program().interposer, subject.program().handle) {
    EXPECT_EQ(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  ~CaptureSetting() { EXPECT_EQ(cuStreamDestroy(other_), CUDA_SUCCESS); }
  CaptureSetting(const CaptureSetting&) = delete;
  CaptureSetting& operator=(const CaptureSetting&) = delete;

  // Captures a call in pieces and replays it while other calls run. Expects the right results of
  // the replays and of the calls.
  void ExpectReplaysBesideCalls() {
    const auto captured = subject_.Memory(), beside = subject_.Memory();
    CUgraphExec exec = nullptr;
    const CUgraph graph = stream_.Capture([&] { subject_.Run(*captured); });
    EXPECT_GE(test::NodesOf(graph), size_t{8 / kPart});
    ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    for (int seed = 1; seed <= 4; ++seed) {
      captured->Fill(seed);
      beside->Fill(seed + 10);
      EXPECT_EQ(cuGraphLaunch(exec, other_), CUDA_SUCCESS);
      subject_.Run(*beside);
      EXPECT_EQ(captured->Output(), subject_.Undivided(seed));
      EXPECT_EQ(beside->Output(), subject_.Undivided(seed + 10));
    }
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  }

 private:
  OnePlan& subject_;
  test::HandleStream stream_;
  CUstream other_ = nullptr;
};

// A native graph, made from the plan, that computes in `memory`.
class NativeGraphOf {
 public:
  NativeGraphOf(OnePlan& subject, const Operands& memory) {
    EXPECT_EQ(cuGraphCreate(&graph_, 0), CUDA_SUCCESS);
    status_ = With(subject, memory, [](auto handle, auto plan, auto pack) {
      return the_interposer->graph().PopulateCudaGraph(handle, plan, pack, TheGraph());
    });
  }
  ~NativeGraphOf() { EXPECT_EQ(cuGraphDestroy(graph_), CUDA_SUCCESS); }
  NativeGraphOf(const NativeGraphOf&) = delete;
  NativeGraphOf& operator=(const NativeGraphOf&) = delete;

  // Makes the graph compute in `memory` from now on.
  cudnnStatus_t Update(OnePlan& subject, const Operands& memory) {
    return With(subject, memory, [](auto handle, auto plan, auto pack) {
      return the_interposer->graph().UpdateCudaGraph(handle, plan, pack, TheGraph());
    });
  }
  cudnnStatus_t status() const { return status_; }
  size_t Nodes() const { return test::NodesOf(graph_); }
  void Launch() const {
    CUgraphExec exec = nullptr;
    ASSERT_EQ(cuGraphInstantiate(&exec, graph_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  }

 private:
  static CUgraph& TheGraph() {
    static CUgraph graph = nullptr;
    return graph;
  }
  // Calls `take` with the plan and a variant pack that points into `memory`.
  cudnnStatus_t With(OnePlan& subject, const Operands& memory,
                     decltype(cudnn::Functions::cudnnBackendExecute) take) const {
    TheGraph() = graph_;
    cudnn::Functions taking = subject.program().hooked;
    taking.cudnnBackendExecute = take;
    return memory.Execute(taking, subject.program().handle, subject.plan());
  }
  CUgraph graph_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

}  // namespace ucudnn::interposer
