#include "tuning/measure.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <set>

#include "base/byte_size.h"
#include "base/log.h"
#include "convolution/engine_name.h"
#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "execution/tile_packing.h"
#include "tuning/tensor.h"
#include "tuning/tuning_handle.h"

namespace ucudnn::tuning {
namespace {

using planning::Measurement;

constexpr int kSamples = 5;
// In milliseconds. If one run is shorter than this, a sample consists of several runs, back to
// back, because the pieces of a plan run back to back, too.
constexpr double kSampleMs = 0.2;
constexpr int kMaxRepeats = 20;
// If one run of an engine is long enough for a sample, and slower by this factor than the best
// engine so far, the engine gets no second sample, because it is hardly ever chosen.
constexpr double kHopelessOnce = 2;

size_t OperandBytes(const ConvolutionProblem& problem, const FusedOperands& fused) {
  size_t bytes =
      cudnn::ImageBytes(problem) + cudnn::FilterBytes(problem) + cudnn::OutputBytes(problem);
  for (const cudnn::FusedOperand& operand : fused) bytes += FusedTensor(operand, problem).Bytes();
  return bytes;
}

class Measurer {
 public:
  Measurer(const Device& device, TuningHandle& handle, const MeasureLimits& limits,
           const MeasuringTask& task)
      : limits_(limits),
        is_known_(task.is_known),
        are_partials_(task.are_partials),
        packed_(task.packed),
        progress_(task.progress),
        step_{Activity::kMeasuring, &task.problem},
        fused_(FusedIn(task.scope)),
        handle_(handle),
        engines_(MakeEngines(task.scope, *device.functions, handle.get())),
        functions_(*device.functions),
        driver_(*device.driver),
        x_(handle.memory(), driver_),
        w_(handle.memory(), driver_),
        y_(handle.memory(), driver_),
        workspace_(handle.memory(), driver_),
        begin_(driver_),
        end_(driver_) {}

  // Allocates the operands for `largest`, the problem with the largest of the micro-batches.
  Status Allocate(const ConvolutionProblem& largest) {
    UCUDNN_RETURN_IF_ERROR(begin_.Create());
    UCUDNN_RETURN_IF_ERROR(end_.Create());
    UCUDNN_RETURN_IF_ERROR(handle_.MakeOperand(x_, cudnn::ImageBytes(largest)));
    UCUDNN_RETURN_IF_ERROR(handle_.MakeOperand(w_, cudnn::FilterBytes(largest)));
    UCUDNN_RETURN_IF_ERROR(handle_.MakeOperand(y_, cudnn::OutputBytes(largest)));
    for (const cudnn::FusedOperand& operand : fused_) {
      cuda::DeviceBuffer& read = read_.emplace_back(handle_.memory(), driver_);
      UCUDNN_RETURN_IF_ERROR(handle_.MakeOperand(read, FusedTensor(operand, largest).Bytes()));
    }
    workspace_limit_ = limits_.memory_bytes - OperandBytes(largest, fused_);
    return handle_.stream().Synchronize();
  }

  // Adds the measurement of summing partials of `problem` to `all`, if it is not known yet.
  Status MeasureSum(const ConvolutionProblem& problem, EngineMeasurements& all) {
    if (is_known_(kPartialSum, kPartialSumBatch)) return Status::Ok();
    all.sum_late = Clock::now() >= limits_.deadline;
    if (all.sum_late) return Status::Ok();
    UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<cudnn::PartialSum> sum,
                            engines_->MakeSum(problem));
    const size_t bytes = PartialSumBytes(problem);
    UCUDNN_RETURN_IF_ERROR(ReserveWorkspace(bytes));
    UCUDNN_RETURN_IF_ERROR(handle_.MakeOperand(workspace_, bytes));
    step_.micro_batch = 0;
    step_.engine = 0;
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

  // Adds the measurement of a packed tile's copies to `all`. The tile is copied from and to tensors
  // that are slightly larger than the tile.
  Status MeasurePacking(EngineMeasurements& all) {
    if (packed_ == nullptr) return Status::Ok();
    if (Clock::now() >= limits_.deadline) return Status::Error("measuring takes too long");
    const ConvolutionProblem views = SlackViews(*packed_);
    const size_t bytes = PackedBytes(*packed_);
    const size_t around = cudnn::ImageBytes(views) + cudnn::OutputBytes(views);
    if (around > workspace_limit_ || bytes > workspace_limit_ - around) {
      return Status::Error("copies of a tile need " + FormatByteSize(around + bytes) +
                           ", more than the " + FormatByteSize(workspace_limit_) +
                           " left for measuring");
    }
    cuda::DeviceBuffer x(handle_.memory(), driver_), y(handle_.memory(), driver_);
    UCUDNN_RETURN_IF_ERROR(handle_.MakeOperand(x, cudnn::ImageBytes(views)));
    UCUDNN_RETURN_IF_ERROR(handle_.MakeOperand(y, cudnn::OutputBytes(views)));
    UCUDNN_RETURN_IF_ERROR(ReserveWorkspace(bytes));
    UCUDNN_ASSIGN_OR_RETURN(const execution::TilePacking packing,
                            execution::TilePacking::Make(views, *packed_, {&driver_, &functions_}));
    cudnn::ConvolutionCall call;
    call.operation = views.operation;
    call.handle = handle_.get();
    call.x = x.data();
    call.y = y.data();
    call.workspace = workspace_.data();
    call.workspace_bytes = bytes;
    step_.micro_batch = views.n;
    step_.engine = 0;
    const auto run = [&]() -> Status {
      cudnnStatus_t status = packing.Pack(call, false);
      if (status == CUDNN_STATUS_SUCCESS && packing.unpacks()) status = packing.Unpack(call);
      return cudnn::CudnnStatus(functions_, status, "copying a tile");
    };
    Measurement measurement;
    measurement.micro = {kPacking, views.n, 0, bytes, true};
    constexpr double kNone = std::numeric_limits<double>::infinity();
    UCUDNN_RETURN_IF_ERROR(MeasureOne(run, kNone, measurement));
    all.measurements.push_back(std::move(measurement));
    return handle_.stream().Synchronize();
  }

  // Adds the measurements of all engines at problem.n images to `all`.
  Status MeasureAll(const ConvolutionProblem& problem, EngineMeasurements& all) {
    // Listing the engines compiles the CUDA kernels of some engines, which takes seconds.
    if (Clock::now() >= limits_.deadline) {
      all.late_sizes.push_back(problem.n);
      return Status::Ok();
    }
    UCUDNN_ASSIGN_OR_RETURN(std::vector<cudnn::ListedEngine> engines, engines_->List(problem));
    double best_ms = std::numeric_limits<double>::infinity();
    bool scarce = false, late = false, any = false;
    step_.engines = engines.size();
    for (size_t at = 0; at < engines.size(); ++at) {
      step_.engine = at + 1;
      const Tried tried = Try({problem, std::move(engines[at])}, best_ms, all);
      late = tried == Tried::kLate;
      if (late) break;
      scarce |= tried == Tried::kNoMemory;
      any |= tried == Tried::kMeasured || tried == Tried::kKnown;
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

  // Adds the measurements of all engines at all `sizes` to `all`, and the measurements of a packed
  // tile's copies and of summing partials if they are needed.
  Status MeasureSizes(const ConvolutionProblem& problem, const std::vector<int>& sizes,
                      EngineMeasurements& all) {
    UCUDNN_RETURN_IF_ERROR(MeasurePacking(all));
    if ((problem.n > 1 || are_partials_) && SumsPartials(problem)) {
      if (const Status status = MeasureSum(problem, all);
          !status.ok() && LogEnabled(LogLevel::kInfo)) {
        Log(LogLevel::kInfo, Describe(problem) + " stays whole: " + status.message());
      }
    }
    const size_t summed = all.measurements.size();
    ConvolutionProblem part = problem;
    Status last = Status::Error("no engine runs it");
    for (const int size : sizes) {
      part.n = size;
      if (Status status = MeasureAll(part, all); !status.ok()) last = std::move(status);
    }
    const bool none = all.measurements.size() == summed && all.complete_sizes.empty();
    if (none && all.late_sizes.empty()) {
      if (summed == 0) return last;
      all.failure = last;
    }
    return Status::Ok();
  }

  // Measures the engines that MeasureLimits::fit_bytes asks for, but only at `sizes`, the sizes for
  // which there is memory. So the undivided kernel is measured only if `sizes` contains its number
  // of images.
  void MeasureFitting(const ConvolutionProblem& problem, const std::vector<int>& sizes,
                      size_t fit_bytes, EngineMeasurements& all) {
    if (Clock::now() >= limits_.deadline) return;
    // A packed tile cannot be planned without the cost of its copies.
    if (const Status packing = MeasurePacking(all); !packing.ok()) {
      Log(LogLevel::kInfo, Describe(problem) + " is not measured: " + packing.message());
      return;
    }
    // Partials cannot be planned without the cost of summing them.
    const bool sums = SumsPartials(problem);
    if (are_partials_ && sums && !MeasureSum(problem, all).ok()) return;
    const bool tries_whole = std::find(sizes.begin(), sizes.end(), problem.n) != sizes.end();
    std::set<EngineId> serve_whole;
    double best_ms = std::numeric_limits<double>::infinity();
    const std::vector<Unit> undivided = LeastFirst(Fitting(problem, problem.n, fit_bytes));
    step_.engines = undivided.size();
    for (const Unit& unit : undivided) {
      ++step_.engine;
      const EngineId& engine = unit.engine.choice.engine;
      if (tries_whole && Try(unit, best_ms, all) == Tried::kLate) return;
      const auto is_engine = [&](const Measurement& row) { return row.micro.engine == engine; };
      if (is_known_(engine, problem.n) ||
          std::any_of(all.measurements.begin(), all.measurements.end(), is_engine)) {
        serve_whole.insert(engine);
      }
    }
    std::vector<Unit> pieces;
    for (const int size : sizes) {
      if (size == problem.n) continue;
      if (Clock::now() >= limits_.deadline) return;
      for (Unit& unit : Fitting(problem, size, fit_bytes)) {
        if (!serve_whole.contains(unit.engine.choice.engine)) pieces.push_back(std::move(unit));
      }
    }
    if (!pieces.empty() && sums && !MeasureSum(problem, all).ok()) return;
    pieces = LeastFirst(std::move(pieces));
    step_.engine = 0;
    step_.engines = pieces.size();
    for (const Unit& unit : pieces) {
      ++step_.engine;
      // The times of two sizes cannot be compared, so there is no best time yet for a unit of
      // another size.
      best_ms = std::numeric_limits<double>::infinity();
      if (Try(unit, best_ms, all) == Tried::kLate) return;
    }
    all.all_fitting = true;
  }

 private:
  // One engine at one micro-batch size, ready to run.
  struct Unit {
    ConvolutionProblem problem;
    cudnn::ListedEngine engine;
  };
  enum class Tried { kMeasured, kKnown, kNoMemory, kFailed, kLate };

  // Returns the engines that run `size` images of `problem` within `fit_bytes`. Returns none if the
  // library cannot list engines.
  std::vector<Unit> Fitting(const ConvolutionProblem& problem, int size, size_t fit_bytes) {
    ConvolutionProblem part = problem;
    part.n = size;
    std::vector<Unit> units;
    auto listed = engines_->List(part);
    if (!listed.ok()) return units;
    const size_t sum_bytes = IsPartial(problem, size) ? PartialSumBytes(problem) : 0;
    for (cudnn::ListedEngine& engine : *listed) {
      if (engine.choice.workspace_bytes + sum_bytes <= fit_bytes)
        units.push_back({part, std::move(engine)});
    }
    return units;
  }

  static std::vector<Unit> LeastFirst(std::vector<Unit> units) {
    std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
      return a.engine.choice.workspace_bytes < b.engine.choice.workspace_bytes;
    });
    return units;
  }

  // Adds the measurement of `unit` to `all`. Adds nothing if the measurement is known, if time or
  // memory is short, or if the engine fails. `best_ms` is the least time at the unit's size so far.
  Tried Try(const Unit& unit, double& best_ms, EngineMeasurements& all) {
    const cudnn::EngineChoice& choice = unit.engine.choice;
    const int size = unit.problem.n;
    const bool twin_known = choice.twin.empty() || is_known_(choice.twin, size);
    if (twin_known && is_known_(choice.engine, size)) return Tried::kKnown;
    if (Clock::now() >= limits_.deadline) return Tried::kLate;
    step_.micro_batch = size;
    Measurement measurement;
    measurement.micro = {choice.engine, size, 0, choice.workspace_bytes, choice.deterministic};
    Status status = ReserveWorkspace(choice.workspace_bytes);
    const bool reserved = status.ok();
    const auto run = [&] { return RunEngine(unit); };
    if (reserved) status = MeasureOne(run, best_ms, measurement);
    if (status.ok()) {
      best_ms = std::min(best_ms, measurement.micro.time_ms);
      all.measurements.push_back(measurement);
      if (!choice.twin.empty()) {
        measurement.micro.engine = choice.twin;
        ++all.twins;
        all.measurements.push_back(std::move(measurement));
      }
      return Tried::kMeasured;
    }
    all.engine_failed = true;
    if (LogEnabled(LogLevel::kInfo)) {
      Log(LogLevel::kInfo, EngineName(unit.problem.operation, choice.engine) + " is left out of " +
                               Describe(unit.problem) + ": " + status.message());
    }
    return reserved ? Tried::kFailed : Tried::kNoMemory;
  }

  Status ReserveWorkspace(size_t bytes) {
    if (bytes > workspace_limit_) {
      return Status::Error("its workspace of " + FormatByteSize(bytes) + " exceeds the " +
                           FormatByteSize(workspace_limit_) + " left for measuring");
    }
    return workspace_.Reserve(bytes);
  }

  Status RunEngine(const Unit& unit) {
    cudnn::FusedPointers fused{fused_};
    for (size_t i = 0; i < read_.size(); ++i) fused.pointers[i] = read_[i].data();
    cudnn::ConvolutionCall call = handle_.CallOf(unit.problem);
    call.x = x_.data();
    call.w = w_.data();
    call.y = y_.data();
    call.workspace_bytes = unit.engine.choice.workspace_bytes;
    call.workspace = call.workspace_bytes > 0 ? workspace_.data() : nullptr;
    call.fused = &fused;
    return cudnn::CudnnStatus(functions_, unit.engine.piece->Run(call, false), "running an engine");
  }

  // Returns the mean time of `repeats` runs, back to back.
  Result<double> Sample(const std::function<Status()>& run, int repeats) {
    progress_.Tell(step_);
    UCUDNN_RETURN_IF_ERROR(begin_.Record(handle_.stream().get()));
    for (int i = 0; i < repeats; ++i) UCUDNN_RETURN_IF_ERROR(run());
    UCUDNN_RETURN_IF_ERROR(end_.Record(handle_.stream().get()));
    UCUDNN_ASSIGN_OR_RETURN(const double total_ms, end_.MillisecondsSince(begin_));
    return total_ms / repeats;
  }

  Status MeasureOne(const std::function<Status()>& run, double best_ms, Measurement& measurement) {
    // The first run loads code and warms caches. The second run shows how many runs a sample needs.
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
    assert(!samples.empty());
    std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
    measurement.micro.time_ms = samples[samples.size() / 2];
    measurement.samples = static_cast<int>(samples.size());
    return Status::Ok();
  }

  const MeasureLimits& limits_;
  const IsKnown& is_known_;
  const bool are_partials_;
  const TileKind* const packed_;
  MeasuringProgress& progress_;
  MeasuringStep step_;  // the step of measuring that is in progress
  const FusedOperands fused_;
  TuningHandle& handle_;
  const std::unique_ptr<cudnn::Engines> engines_;
  size_t workspace_limit_ = 0;
  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  cuda::DeviceBuffer x_, w_, y_, workspace_;
  std::deque<cuda::DeviceBuffer> read_;  // one for each fused operand
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

size_t L2Bytes(const Device& device) {
  const cuda::ContextScope context(*device.driver, device.context);
  CUdevice ordinal = 0;
  int bytes = 0;
  if (device.driver->cuCtxGetDevice(&ordinal) != CUDA_SUCCESS ||
      device.driver->cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, ordinal) !=
          CUDA_SUCCESS) {
    return 0;
  }
  return static_cast<size_t>(std::max(bytes, 0));
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

Result<EngineMeasurements> MeasureEngines(const Device& device, const MeasuringTask& task,
                                          const MeasureLimits& limits) {
  const ConvolutionProblem& problem = task.problem;
  const cuda::ContextScope context(*device.driver, device.context);
  const cuda::RelaxedCaptureScope relaxed(*device.driver);
  EngineMeasurements all;
  ConvolutionProblem part = problem, largest = problem;
  largest.n = 0;
  std::vector<int> feasible;
  for (const int size : task.sizes) {
    part.n = size;
    const bool fits = OperandBytes(part, FusedIn(task.scope)) <= limits.memory_bytes;
    (fits ? feasible : all.scarce_sizes).push_back(size);
    if (fits) largest.n = std::max(largest.n, size);
  }
  if (feasible.empty()) {
    return Status::Error("its tensors exceed the " + FormatByteSize(limits.memory_bytes) +
                         " that measuring may take");
  }
  TuningHandle handle(*device.driver, *device.functions);
  UCUDNN_RETURN_IF_ERROR(handle.Create());
  Measurer measurer(device, handle, limits, task);
  UCUDNN_RETURN_IF_ERROR(measurer.Allocate(largest));
  if (limits.fit_bytes) {
    measurer.MeasureFitting(problem, feasible, *limits.fit_bytes, all);
  } else {
    UCUDNN_RETURN_IF_ERROR(measurer.MeasureSizes(problem, feasible, all));
  }
  // Work of this measurement may still run on the device, so its memory must not be freed before
  // the work ends.
  UCUDNN_RETURN_IF_ERROR(handle.stream().Synchronize());
  return all;
}

}  // namespace ucudnn::tuning
