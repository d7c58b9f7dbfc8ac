#include "tuning/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/log.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"

namespace ucudnn::tuning {
namespace {

using planning::Measurement;

constexpr int kSamples = 5;
// A kernel shorter than this is run several times per sample, as pieces run: back to back.
constexpr double kSampleMs = 0.2;
constexpr int kMaxRepeats = 20;
// An engine this much slower than the best so far gets one sample: it will hardly be chosen.
constexpr double kHopeless = 2;
// Bytes of operands: 0x3c repeated is a small positive number in every type, neither denormal nor
// NaN.
constexpr unsigned char kOperandByte = 0x3c;

// A handle of our own on a stream of our own.
class TuningHandle {
 public:
  TuningHandle(const cuda::Driver& driver, const cudnn::Functions& functions)
      : functions_(functions), stream_(driver) {}
  ~TuningHandle() {
    if (handle_ != nullptr) functions_.cudnnDestroy(handle_);
  }
  TuningHandle(const TuningHandle&) = delete;
  TuningHandle& operator=(const TuningHandle&) = delete;

  Status Create() {
    UCUDNN_RETURN_IF_ERROR(stream_.Create());
    UCUDNN_RETURN_IF_ERROR(cudnn::CudnnStatus(functions_, functions_.cudnnCreate(&handle_),
                                              "creating a handle for measuring"));
    return cudnn::CudnnStatus(functions_, functions_.cudnnSetStream(handle_, stream_.get()),
                              "setting the stream for measuring");
  }
  cudnnHandle_t get() const { return handle_; }
  cuda::Stream& stream() { return stream_; }

 private:
  const cudnn::Functions& functions_;
  cuda::Stream stream_;
  cudnnHandle_t handle_ = nullptr;
};

class Measurer {
 public:
  Measurer(const Device& device, TuningHandle& handle)
      : handle_(handle),
        engines_(*device.functions, handle.get()),
        driver_(*device.driver),
        x_(driver_),
        w_(driver_),
        y_(driver_),
        workspace_(driver_),
        begin_(driver_),
        end_(driver_) {}

  // Operands for `largest`, the problem at its largest micro-batch.
  Status Allocate(const ConvolutionProblem& largest) {
    UCUDNN_RETURN_IF_ERROR(begin_.Create());
    UCUDNN_RETURN_IF_ERROR(end_.Create());
    UCUDNN_RETURN_IF_ERROR(Operand(x_, cudnn::ImageBytes(largest)));
    UCUDNN_RETURN_IF_ERROR(Operand(w_, cudnn::FilterBytes(largest)));
    UCUDNN_RETURN_IF_ERROR(Operand(y_, cudnn::OutputBytes(largest)));
    return handle_.stream().Synchronize();
  }

  // Adds the measurements at problem.n to `all`.
  Status MeasureAll(const ConvolutionProblem& problem, EngineMeasurements& all) {
    UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<cudnn::PreparedProblem> prepared,
                            engines_.Prepare(problem));
    UCUDNN_ASSIGN_OR_RETURN(std::vector<cudnn::EngineChoice> choices, prepared->Engines());
    double best_ms = std::numeric_limits<double>::infinity();
    bool scarce = false;
    for (const cudnn::EngineChoice& choice : choices) {
      Measurement measurement;
      measurement.micro = {choice.engine, problem.n, 0, choice.workspace_bytes,
                           choice.deterministic};
      Status status = workspace_.Reserve(choice.workspace_bytes);
      scarce |= !status.ok();
      if (status.ok()) status = MeasureOne(*prepared, choice, best_ms, measurement);
      if (status.ok()) {
        best_ms = std::min(best_ms, measurement.micro.time_ms);
        all.measurements.push_back(std::move(measurement));
      } else if (LogEnabled(LogLevel::kInfo)) {
        Log(LogLevel::kInfo,
            choice.engine + " is left out of " + Describe(problem) + ": " + status.message());
      }
    }
    if (scarce) all.scarce_sizes.push_back(problem.n);
    return Status::Ok();
  }

 private:
  Status Operand(cuda::DeviceBuffer& buffer, size_t bytes) {
    UCUDNN_RETURN_IF_ERROR(buffer.Reserve(bytes));
    return cuda::DriverStatus(
        driver_,
        driver_.cuMemsetD8Async(buffer.address(), kOperandByte, bytes, handle_.stream().get()),
        "filling an operand");
  }

  // Mean time of `repeats` runs back to back.
  Result<double> Sample(cudnn::PreparedProblem& prepared, const cudnn::EngineChoice& choice,
                        int repeats) {
    const cudnn::Buffers buffers{x_.data(), w_.data(), y_.data(),
                                 choice.workspace_bytes > 0 ? workspace_.data() : nullptr,
                                 choice.workspace_bytes};
    UCUDNN_RETURN_IF_ERROR(begin_.Record(handle_.stream().get()));
    for (int i = 0; i < repeats; ++i) UCUDNN_RETURN_IF_ERROR(prepared.Run(choice, buffers));
    UCUDNN_RETURN_IF_ERROR(end_.Record(handle_.stream().get()));
    UCUDNN_ASSIGN_OR_RETURN(const double total_ms, end_.MillisecondsSince(begin_));
    return total_ms / repeats;
  }

  Status MeasureOne(cudnn::PreparedProblem& prepared, const cudnn::EngineChoice& choice,
                    double best_ms, Measurement& measurement) {
    // The first run loads code and warms caches; the second tells how long a sample must be.
    UCUDNN_RETURN_IF_ERROR(Sample(prepared, choice, 1).status());
    UCUDNN_ASSIGN_OR_RETURN(const double once_ms, Sample(prepared, choice, 1));
    const int repeats =
        once_ms > 0 ? std::clamp(static_cast<int>(std::ceil(kSampleMs / once_ms)), 1, kMaxRepeats)
                    : kMaxRepeats;
    std::vector<double> samples;
    if (repeats == 1) samples.push_back(once_ms);
    const bool hopeless = repeats == 1 && once_ms > kHopeless * best_ms;
    while (!hopeless && samples.size() < kSamples) {
      UCUDNN_ASSIGN_OR_RETURN(const double sample_ms, Sample(prepared, choice, repeats));
      samples.push_back(sample_ms);
    }
    std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
    measurement.micro.time_ms = samples[samples.size() / 2];
    measurement.samples = static_cast<int>(samples.size());
    return Status::Ok();
  }

  TuningHandle& handle_;
  cudnn::LegacyEngines engines_;
  const cuda::Driver& driver_;
  cuda::DeviceBuffer x_, w_, y_, workspace_;
  cuda::Event begin_, end_;
};

}  // namespace

Result<planning::Platform> DescribePlatform(const cuda::Driver& driver,
                                            const cudnn::Functions& functions) {
  CUdevice device = 0;
  char name[256] = {};
  planning::Platform platform;
  UCUDNN_RETURN_IF_ERROR(
      cuda::DriverStatus(driver, driver.cuCtxGetDevice(&device), "asking for the device"));
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
      driver, driver.cuDeviceGetName(name, sizeof name - 1, device), "asking for its name"));
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver, driver.cuDriverGetVersion(&platform.driver),
                                            "asking for the driver's version"));
  platform.device = name;
  platform.cudnn = static_cast<int>(functions.cudnnGetVersion());
  return platform;
}

Result<EngineMeasurements> MeasureEngines(const Device& device, const ConvolutionProblem& problem,
                                          const std::vector<int>& sizes) {
  const cuda::ContextScope context(*device.driver, device.context);
  const cuda::RelaxedCaptureScope relaxed(*device.driver);
  TuningHandle handle(*device.driver, *device.functions);
  UCUDNN_RETURN_IF_ERROR(handle.Create());
  Measurer measurer(device, handle);
  ConvolutionProblem part = problem;
  part.n = *std::max_element(sizes.begin(), sizes.end());
  UCUDNN_RETURN_IF_ERROR(measurer.Allocate(part));
  EngineMeasurements all;
  Status last = Status::Error("no engine runs it");
  for (const int size : sizes) {
    part.n = size;
    if (Status status = measurer.MeasureAll(part, all); !status.ok()) last = std::move(status);
  }
  // Nothing of ours may still run when the memory goes.
  UCUDNN_RETURN_IF_ERROR(handle.stream().Synchronize());
  if (all.measurements.empty()) return last;
  return all;
}

}  // namespace ucudnn::tuning
