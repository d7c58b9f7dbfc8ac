#include "tuning/measure.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "base/byte_size.h"
#include "base/log.h"
#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "tuning/tuning_handle.h"

namespace ucudnn::tuning {
namespace {

using planning::Measurement;

constexpr int kSamples = 5;
// A kernel shorter than this is run several times per sample, as pieces run: back to back.
constexpr double kSampleMs = 0.2;
constexpr int kMaxRepeats = 20;
// An engine this much slower than the best so far gets one sample: it will hardly be chosen.
constexpr double kHopelessOnce = 2;
// Bytes of operands: 0x3c repeated is a small positive number in every type, neither denormal nor
// NaN.
constexpr unsigned char kOperandByte = 0x3c;

size_t OperandBytes(const ConvolutionProblem& problem, const EngineScope& scope) {
  const size_t output = cudnn::OutputBytes(problem);
  return cudnn::ImageBytes(problem) + cudnn::FilterBytes(problem) + output +
         (scope.residual ? output : 0) + scope.bias_bytes;
}

class Measurer {
 public:
  Measurer(const Device& device, TuningHandle& handle, const MeasureLimits& limits,
           const IsKnown& is_known, const EngineScope& scope)
      : limits_(limits),
        is_known_(is_known),
        scope_(scope),
        handle_(handle),
        engines_(scope.make(handle.get())),
        functions_(*device.functions),
        driver_(*device.driver),
        x_(handle.memory(), driver_),
        w_(handle.memory(), driver_),
        y_(handle.memory(), driver_),
        residual_(handle.memory(), driver_),
        bias_(handle.memory(), driver_),
        workspace_(handle.memory(), driver_),
        begin_(driver_),
        end_(driver_) {}

  // Operands for `largest`, the problem at its largest micro-batch.
  Status Allocate(const ConvolutionProblem& largest) {
    UCUDNN_RETURN_IF_ERROR(begin_.Create());
    UCUDNN_RETURN_IF_ERROR(end_.Create());
    UCUDNN_RETURN_IF_ERROR(Operand(x_, cudnn::ImageBytes(largest)));
    UCUDNN_RETURN_IF_ERROR(Operand(w_, cudnn::FilterBytes(largest)));
    UCUDNN_RETURN_IF_ERROR(Operand(y_, cudnn::OutputBytes(largest)));
    if (scope_.residual) {
      UCUDNN_RETURN_IF_ERROR(Operand(residual_, cudnn::OutputBytes(largest)));
    }
    if (scope_.bias_bytes > 0) UCUDNN_RETURN_IF_ERROR(Operand(bias_, scope_.bias_bytes));
    workspace_limit_ = limits_.memory_bytes - OperandBytes(largest, scope_);
    return handle_.stream().Synchronize();
  }

  // Adds to `all` what a partial of `problem` costs beyond its engine, where that is not known.
  Status MeasureSum(const ConvolutionProblem& problem, EngineMeasurements& all) {
    if (is_known_(kPartialSum, kPartialSumBatch)) return Status::Ok();
    all.sum_late = Clock::now() >= limits_.deadline;
    if (all.sum_late) return Status::Ok();
    UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<cudnn::PartialSum> sum,
                            engines_->MakeSum(problem));
    const size_t bytes = PartialSumBytes(problem);
    UCUDNN_RETURN_IF_ERROR(ReserveWorkspace(bytes));
    UCUDNN_RETURN_IF_ERROR(Fill(workspace_, bytes));
    Measurement measurement;
    measurement.micro = {kPartialSum, kPartialSumBatch, 0, bytes, true};
    const auto run = [&]() -> Status {
      constexpr float kOne = 1;
      cudnnStatus_t status = sum->Add(handle_.get(), workspace_.data(), false);
      if (status == CUDNN_STATUS_SUCCESS) {
        status = sum->Store(handle_.get(), workspace_.data(), &kOne, &kOne, w_.data());
      }
      return cudnn::CudnnStatus(functions_, status, "summing partials");
    };
    constexpr double kNone = std::numeric_limits<double>::infinity();
    UCUDNN_RETURN_IF_ERROR(MeasureOne(run, kNone, measurement));
    all.measurements.push_back(std::move(measurement));
    return Status::Ok();
  }

  // Adds the measurements at problem.n to `all`.
  Status MeasureAll(const ConvolutionProblem& problem, EngineMeasurements& all) {
    UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<cudnn::PreparedProblem> prepared,
                            engines_->Prepare(problem));
    UCUDNN_ASSIGN_OR_RETURN(std::vector<cudnn::EngineChoice> choices, prepared->Engines());
    double best_ms = std::numeric_limits<double>::infinity();
    bool scarce = false, late = false, any = false;
    for (const cudnn::EngineChoice& choice : choices) {
      if (is_known_(choice.engine, problem.n)) {
        any = true;
        continue;
      }
      late = Clock::now() >= limits_.deadline;
      if (late) break;
      Measurement measurement;
      measurement.micro = {choice.engine, problem.n, 0, choice.workspace_bytes,
                           choice.deterministic};
      Status status = ReserveWorkspace(choice.workspace_bytes);
      scarce |= !status.ok();
      const auto run = [&] { return RunEngine(*prepared, choice); };
      if (status.ok()) status = MeasureOne(run, best_ms, measurement);
      if (status.ok()) {
        any = true;
        best_ms = std::min(best_ms, measurement.micro.time_ms);
        all.measurements.push_back(std::move(measurement));
        continue;
      }
      all.engine_failed = true;
      if (LogEnabled(LogLevel::kInfo)) {
        Log(LogLevel::kInfo,
            choice.engine + " is left out of " + Describe(problem) + ": " + status.message());
      }
    }
    if (late) {
      all.late_sizes.push_back(problem.n);
    } else if (scarce) {
      all.scarce_sizes.push_back(problem.n);
    } else if (any) {
      all.complete_sizes.push_back(problem.n);
    }
    return Status::Ok();
  }

 private:
  Status ReserveWorkspace(size_t bytes) {
    if (bytes > workspace_limit_) {
      return Status::Error("its workspace of " + FormatByteSize(bytes) + " exceeds the " +
                           FormatByteSize(workspace_limit_) + " left for measuring");
    }
    return workspace_.Reserve(bytes);
  }

  Status Operand(cuda::DeviceBuffer& buffer, size_t bytes) {
    UCUDNN_RETURN_IF_ERROR(buffer.Reserve(bytes));
    return Fill(buffer, bytes);
  }

  Status Fill(const cuda::DeviceBuffer& buffer, size_t bytes) {
    return cuda::DriverStatus(
        driver_,
        driver_.cuMemsetD8Async(buffer.address(), kOperandByte, bytes, handle_.stream().get()),
        "filling an operand");
  }

  Status RunEngine(cudnn::PreparedProblem& prepared, const cudnn::EngineChoice& choice) {
    cudnn::Buffers buffers{x_.data(), w_.data(), y_.data(),
                           choice.workspace_bytes > 0 ? workspace_.data() : nullptr,
                           choice.workspace_bytes};
    if (scope_.residual) buffers.residual = residual_.data();
    if (scope_.bias_bytes > 0) buffers.bias = bias_.data();
    return prepared.Run(choice, buffers);
  }

  // Mean time of `repeats` runs back to back.
  Result<double> Sample(const std::function<Status()>& run, int repeats) {
    UCUDNN_RETURN_IF_ERROR(begin_.Record(handle_.stream().get()));
    for (int i = 0; i < repeats; ++i) UCUDNN_RETURN_IF_ERROR(run());
    UCUDNN_RETURN_IF_ERROR(end_.Record(handle_.stream().get()));
    UCUDNN_ASSIGN_OR_RETURN(const double total_ms, end_.MillisecondsSince(begin_));
    return total_ms / repeats;
  }

  Status MeasureOne(const std::function<Status()>& run, double best_ms, Measurement& measurement) {
    // The first run loads code and warms caches; the second tells how long a sample must be.
    UCUDNN_RETURN_IF_ERROR(Sample(run, 1).status());
    UCUDNN_ASSIGN_OR_RETURN(const double once_ms, Sample(run, 1));
    const int repeats =
        once_ms > 0 ? std::clamp(static_cast<int>(std::ceil(kSampleMs / once_ms)), 1, kMaxRepeats)
                    : kMaxRepeats;
    std::vector<double> samples;
    if (repeats == 1) samples.push_back(once_ms);
    const bool hopeless = repeats == 1 && once_ms > kHopelessOnce * best_ms;
    while (!hopeless && samples.size() < kSamples &&
           (samples.empty() || Clock::now() < limits_.deadline)) {
      UCUDNN_ASSIGN_OR_RETURN(const double sample_ms, Sample(run, repeats));
      samples.push_back(sample_ms);
    }
    std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
    measurement.micro.time_ms = samples[samples.size() / 2];
    measurement.samples = static_cast<int>(samples.size());
    return Status::Ok();
  }

  const MeasureLimits& limits_;
  const IsKnown& is_known_;
  const EngineScope& scope_;
  TuningHandle& handle_;
  const std::unique_ptr<cudnn::Engines> engines_;
  size_t workspace_limit_ = 0;
  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  cuda::DeviceBuffer x_, w_, y_, residual_, bias_, workspace_;
  cuda::Event begin_, end_;
};

}  // namespace

Result<planning::Platform> DescribePlatform(const cuda::Driver& driver,
                                            const cudnn::Functions& functions) {
  CUdevice device = 0;
  UCUDNN_RETURN_IF_ERROR(
      cuda::DriverStatus(driver, driver.cuCtxGetDevice(&device), "asking for the device"));
  return DescribePlatform(driver, functions, device);
}

Result<planning::Platform> DescribePlatform(const cuda::Driver& driver,
                                            const cudnn::Functions& functions, CUdevice device) {
  char name[256] = {};
  planning::Platform platform;
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      driver, driver.cuDeviceGetName(name, sizeof name - 1, device), "asking for its name"));
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver, driver.cuDriverGetVersion(&platform.driver),
                                            "asking for the driver's version"));
  platform.device = name;
  platform.cudnn = static_cast<int>(functions.cudnnGetVersion());
  return platform;
}

Result<std::string> DeviceName(const Device& device) {
  const cuda::ContextScope context(*device.driver, device.context);
  CUdevice ordinal = 0;
  CUuuid uuid = {};
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(*device.driver, device.driver->cuCtxGetDevice(&ordinal),
                                            "asking for the device"));
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      *device.driver, device.driver->cuDeviceGetUuid(&uuid, ordinal), "asking for its UUID"));
  std::string name;
  for (const char byte : uuid.bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    name += kDigits[static_cast<unsigned char>(byte) >> 4];
    name += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return name;
}

Result<EngineMeasurements> MeasureEngines(const Device& device, const ConvolutionProblem& problem,
                                          const std::vector<int>& sizes,
                                          const MeasureLimits& limits, const IsKnown& is_known,
                                          const EngineScope& scope) {
  const cuda::ContextScope context(*device.driver, device.context);
  const cuda::RelaxedCaptureScope relaxed(*device.driver);
  EngineMeasurements all;
  ConvolutionProblem part = problem, largest = problem;
  largest.n = 0;
  std::vector<int> feasible;
  for (const int size : sizes) {
    part.n = size;
    const bool fits = OperandBytes(part, scope) <= limits.memory_bytes;
    (fits ? feasible : all.scarce_sizes).push_back(size);
    if (fits) largest.n = std::max(largest.n, size);
  }
  if (feasible.empty()) {
    return Status::Error("its tensors exceed the " + FormatByteSize(limits.memory_bytes) +
                         " that measuring may take");
  }
  TuningHandle handle(*device.driver, *device.functions);
  UCUDNN_RETURN_IF_ERROR(handle.Create());
  Measurer measurer(device, handle, limits, is_known, scope);
  UCUDNN_RETURN_IF_ERROR(measurer.Allocate(largest));
  if (problem.n > 1 && SumsPartials(problem)) {
    if (const Status status = measurer.MeasureSum(problem, all);
        !status.ok() && LogEnabled(LogLevel::kInfo)) {
      Log(LogLevel::kInfo, Describe(problem) + " stays whole: " + status.message());
    }
  }
  const size_t summed = all.measurements.size();
  Status last = Status::Error("no engine runs it");
  for (const int size : feasible) {
    part.n = size;
    if (Status status = measurer.MeasureAll(part, all); !status.ok()) last = std::move(status);
  }
  // Nothing of ours may still run when the memory goes.
  UCUDNN_RETURN_IF_ERROR(handle.stream().Synchronize());
  const bool none = all.measurements.size() == summed && all.complete_sizes.empty();
  if (none && all.late_sizes.empty()) {
    if (summed == 0) return last;
    all.failure = last;
  }
  return all;
}

}  // namespace ucudnn::tuning
