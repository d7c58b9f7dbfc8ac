#include "command/bench/cliff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "command/bench/devices.h"
#include "command/bench/measure.h"
#include "cuda/resources.h"
#include "cudnn/descriptors.h"
#include "cudnn/mixed_engines.h"
#include "execution/schedule.h"
#include "planning/promise.h"

namespace ucudnn::command {
namespace {

constexpr int kRounds = 7;
// Shorter contenders run several times back to back.
constexpr double kSampleMs = 5;
constexpr int kMaxRepeats = 50;
// 0x3c repeated is a small positive number in every type, neither denormal nor NaN.
constexpr unsigned char kOperandByte = 0x3c;

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Operands, workspace and descriptors of one kernel, and its contenders, ready to run.
class Arena {
 public:
  // REQUIRES: the device's context is current during this object's lifetime.
  Arena(const tuning::Device& device, cudnnHandle_t handle, const ConvolutionProblem& problem)
      : functions_(*device.functions),
        driver_(*device.driver),
        handle_(handle),
        problem_(problem),
        descriptors_(functions_),
        stream_(driver_),
        memory_(driver_),
        x_(memory_, driver_),
        w_(memory_, driver_),
        y_(memory_, driver_),
        workspace_(memory_, driver_),
        begin_(driver_),
        end_(driver_) {}
  // The handle outlives the stream.
  ~Arena() { functions_.cudnnSetStream(handle_, nullptr); }

  Status Prepare(size_t workspace_bytes) {
    UCUDNN_RETURN_IF_ERROR(stream_.Create());
    UCUDNN_RETURN_IF_ERROR(memory_.Create(stream_.get()));
    UCUDNN_RETURN_IF_ERROR(begin_.Create());
    UCUDNN_RETURN_IF_ERROR(end_.Create());
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(
        functions_, functions_.cudnnSetStream(handle_, stream_.get()), "setting the stream"));
    UCUDNN_RETURN_IF_ERROR(descriptors_.Create(problem_));
    UCUDNN_RETURN_IF_ERROR(workspace_.Reserve(workspace_bytes));
    for (const auto& [buffer, bytes] :
         {std::pair(&x_, cudnn::ImageBytes(problem_)), std::pair(&w_, cudnn::FilterBytes(problem_)),
          std::pair(&y_, cudnn::OutputBytes(problem_))}) {
      UCUDNN_RETURN_IF_ERROR(buffer->Reserve(bytes));
      UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
          driver_, driver_.cuMemsetD8Async(buffer->address(), kOperandByte, bytes, stream_.get()),
          "filling an operand"));
    }
    return stream_.Synchronize();
  }

  // Adds `contender`, which runs in `workspace_bytes`, as in a program that grants no more. `graph`
  // has its engines of the graph API.
  Status Add(Contender& contender, size_t workspace_bytes, cudnn::MixedEngines::Templates graph) {
    cudnn::MixedEngines engines(functions_, handle_, std::move(graph));
    Entry entry{&contender, workspace_bytes, nullptr};
    UCUDNN_ASSIGN_OR_RETURN(entry.schedule,
                            execution::Schedule::Make(engines, {problem_, contender.division, {}}));
    entries_.push_back(std::move(entry));
    return Status::Ok();
  }

  // Runs all contenders in turn, so that a disturbance affects all of them, and keeps each one's
  // median.
  Status Race() {
    for (Entry& entry : entries_) {
      // The first run loads code and warms caches; the second tells how long a sample must be.
      UCUDNN_RETURN_IF_ERROR(Sample(entry).status());
      UCUDNN_ASSIGN_OR_RETURN(const double once_ms, Sample(entry));
      entry.repeats =
          once_ms > 0 ? std::clamp(static_cast<int>(std::ceil(kSampleMs / once_ms)), 1, kMaxRepeats)
                      : kMaxRepeats;
    }
    for (int round = 0; round < kRounds; ++round) {
      for (Entry& entry : entries_) {
        UCUDNN_ASSIGN_OR_RETURN(const double sample_ms, Sample(entry));
        entry.samples_ms.push_back(sample_ms);
      }
    }
    for (Entry& entry : entries_) entry.contender->run_ms = Median(entry.samples_ms);
    return stream_.Synchronize();
  }

 private:
  struct Entry {
    Contender* contender;
    size_t workspace_bytes;
    std::unique_ptr<execution::Schedule> schedule;
    int repeats = 1;
    std::vector<double> samples_ms;
  };

  Status RunOnce(const Entry& entry) {
    cudnn::ConvolutionCall call;
    call.operation = problem_.operation;
    call.handle = handle_;
    call.descriptors = descriptors_.get();
    call.alpha = cudnn::OneOf(problem_.type);
    call.beta = cudnn::ZeroOf(problem_.type);
    call.x = x_.data();
    call.w = w_.data();
    call.y = y_.data();
    call.workspace = entry.workspace_bytes > 0 ? workspace_.data() : nullptr;
    call.workspace_bytes = entry.workspace_bytes;
    execution::Outcome outcome;
    const cudnnStatus_t status = entry.schedule->Run(call, outcome);
    if (status == CUDNN_STATUS_SUCCESS && outcome != execution::Outcome::kPlanned) {
      return Status::Error("a plan did not run as planned");
    }
    return cudnn::CudnnStatus(functions_, status, "running a plan");
  }

  // Mean time of the entry's repeated runs, back to back.
  Result<double> Sample(const Entry& entry) {
    UCUDNN_RETURN_IF_ERROR(begin_.Record(stream_.get()));
    for (int i = 0; i < entry.repeats; ++i) UCUDNN_RETURN_IF_ERROR(RunOnce(entry));
    UCUDNN_RETURN_IF_ERROR(end_.Record(stream_.get()));
    UCUDNN_ASSIGN_OR_RETURN(const double total_ms, end_.MillisecondsSince(begin_));
    return total_ms / entry.repeats;
  }

  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  const cudnnHandle_t handle_;
  const ConvolutionProblem problem_;
  cudnn::OwnedDescriptors descriptors_;
  cuda::Stream stream_;
  cuda::MemoryPool memory_;
  cuda::DeviceBuffer x_, w_, y_, workspace_;
  cuda::Event begin_, end_;
  std::vector<Entry> entries_;
};

Contender Undivided(const MicroConfiguration& micro) { return {Configuration{{{micro, 1}}}, 0}; }

// Sets the choice of a run with these options within the request's limit, and the fastest undivided
// engine there.
Status ChooseWithin(const tuning::LegacyKernel& kernel, const planning::PromiseRequest& request,
                    const Options& options, tuning::LegacyKernels& legacy, Cliff& cliff) {
  const tuning::LegacyRows measured = legacy.Get(kernel, request);
  if (!measured.status.ok()) return measured.status;
  const auto candidates = tuning::OwnCandidates(kernel.problem, measured);
  const MicroConfiguration real = planning::FindBaselines(candidates, request).any_api;
  if (!real.engine.empty()) cliff.real = Undivided(real);
  const planning::Tilings tilings = TilingsOf(kernel, options, candidates, request, legacy);
  const auto promise = planning::OrInTiles(planning::MakePromise(candidates, request),
                                           tilings.measured, candidates, request);
  if (!promise) return Status::Ok();
  UCUDNN_ASSIGN_OR_RETURN(Division division, DivisionOf(kernel.problem, promise->configuration));
  cliff.ucudnn = Contender{std::move(division), 0};
  return Status::Ok();
}

Result<Cliff> MeasureCliff(tuning::LegacyKernel kernel, const Layer& layer, const Options& options,
                           tuning::MeasuredKernels& kernels) {
  planning::PromiseRequest request =
      planning::RequestFor(layer.problem, planning::kNoLimit, options.deterministic);
  const cudnn::Functions& functions = *kernel.device.functions;
  Options undivided = options;
  undivided.policy = BatchSizePolicy::kUndivided;
  tuning::LegacyKernels wholes(functions, undivided, kernels), legacy(functions, options, kernels);
  const tuning::LegacyRows whole = wholes.Get(kernel, request);
  if (!whole.status.ok()) return whole.status;
  const MicroConfiguration best =
      planning::FindBaselines(tuning::OwnCandidates(layer.problem, whole), request).any_api;
  if (best.engine.empty()) return Status::Error("no engine runs it as it was asked for");
  const size_t one_less = std::max<size_t>(best.workspace_bytes, 1) - 1;
  Cliff cliff{layer, Undivided(best), options.workspace_limit.value_or(one_less), {}, {}};
  request.limit_bytes = cliff.limit_bytes;
  if (cliff.HasCliff()) {
    UCUDNN_RETURN_IF_ERROR(ChooseWithin(kernel, request, options, legacy, cliff));
  }
  Arena arena(kernel.device, kernel.handle, layer.problem);
  UCUDNN_RETURN_IF_ERROR(arena.Prepare(best.workspace_bytes));
  const auto add = [&](Contender& contender, size_t workspace_bytes) {
    return arena.Add(contender, workspace_bytes,
                     legacy.GraphEnginesOf(kernel, contender.division.configuration));
  };
  UCUDNN_RETURN_IF_ERROR(add(cliff.best, best.workspace_bytes));
  if (cliff.real) UCUDNN_RETURN_IF_ERROR(add(*cliff.real, cliff.limit_bytes));
  // If ucudnn leaves the call unchanged, there is one contender to run, not two.
  const bool same = cliff.real && cliff.ucudnn &&
                    cliff.real->division.configuration == cliff.ucudnn->division.configuration;
  if (cliff.ucudnn && !same) UCUDNN_RETURN_IF_ERROR(add(*cliff.ucudnn, cliff.limit_bytes));
  UCUDNN_RETURN_IF_ERROR(arena.Race());
  if (same) cliff.ucudnn->run_ms = cliff.real->run_ms;
  return cliff;
}

}  // namespace

CliffTotal Cliffs::Total() const {
  CliffTotal total;
  for (const Cliff& cliff : kernels) {
    if (cliff.HasCliff() && (!cliff.real || !cliff.ucudnn)) {
      ++total.left_out;
      continue;
    }
    total.best_ms += cliff.best.run_ms;
    total.real_ms += cliff.HasCliff() ? cliff.real->run_ms : cliff.best.run_ms;
    total.ucudnn_ms += cliff.HasCliff() ? cliff.ucudnn->run_ms : cliff.best.run_ms;
  }
  return total;
}

Result<Cliffs> MeasureCliffs(const std::vector<Layer>& layers, const Options& options,
                             EngineSet engines, planning::MeasurementStore* store,
                             const std::function<void(const Layer&)>& progress) {
  BenchDevices devices;
  std::vector<std::string> refused;
  UCUDNN_RETURN_IF_ERROR(devices.Open(options, {}, refused));
  tuning::HeldDevice& bench = devices.first();
  const cuda::ContextScope context(*bench.device().driver, bench.device().context);
  UCUDNN_ASSIGN_OR_RETURN(const cudnnHandle_t handle, bench.Handle());
  // A command measures everything it is asked for, however long that takes.
  tuning::MeasuredKernels kernels(store, std::nullopt, options.lock_folder);
  Cliffs cliffs;
  cliffs.platform = bench.device().platform;
  for (Layer layer : layers) {
    // The alignment is that of a program's calls, so that a run finds these measurements.
    layer.problem.alignment = cudnn::kLegacyAlignment;
    progress(layer);
    tuning::LegacyKernel kernel{bench.device(), layer.problem, 0, handle};
    kernel.graph = engines != EngineSet::kLegacy;
    kernel.may_measure = options.tuning.on;
    kernel.catch_up = true;
    Result<Cliff> cliff = MeasureCliff(std::move(kernel), layer, options, kernels);
    if (!cliff.ok()) return Status::Error(layer.name + ": " + cliff.message());
    cliffs.kernels.push_back(std::move(*cliff));
  }
  cliffs.measured = kernels.measured();
  return cliffs;
}

}  // namespace ucudnn::command
