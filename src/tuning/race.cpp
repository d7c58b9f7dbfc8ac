#include "tuning/race.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include "base/byte_size.h"
#include "cuda/resources.h"
#include "cudnn/descriptors.h"
#include "execution/schedule.h"
#include "tuning/tuning_handle.h"

namespace ucudnn::tuning {
namespace {

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The operands, workspace and descriptors of one kernel, and the racers, ready to run.
class RaceTrack {
 public:
  // REQUIRES: the device's context is current as long as this object exists.
  RaceTrack(const Device& device, const ConvolutionProblem& problem, const MeasureLimits& limits)
      : functions_(*device.functions),
        driver_(*device.driver),
        problem_(problem),
        limits_(limits),
        handle_(driver_, functions_),
        descriptors_(functions_),
        begin_(driver_),
        end_(driver_) {}
  ~RaceTrack() { handle_.Finish(); }

  Status Prepare(const std::vector<Racer>& racers) {
    size_t workspace = 0;
    for (const Racer& racer : racers) {
      workspace = std::max(workspace, racer.workspace_bytes);
    }
    const EngineScope& scope = racers[0].scope;
    fused_ = FusedIn(scope);
    std::vector<size_t> sizes = {cudnn::ImageBytes(problem_), cudnn::FilterBytes(problem_),
                                 cudnn::OutputBytes(problem_), workspace};
    for (const cudnn::FusedOperand& operand : fused_) {
      sizes.push_back(operand.Bytes(problem_.n));
    }
    size_t needed = 0;
    for (const size_t bytes : sizes) needed += bytes;
    lacks_memory_ = needed > limits_.memory_bytes;
    if (lacks_memory_) {
      return Status::Error("needs " + FormatByteSize(needed) + " of device memory, more than " +
                           FormatByteSize(limits_.memory_bytes));
    }
    UCUDNN_RETURN_IF_ERROR(handle_.Create());
    UCUDNN_RETURN_IF_ERROR(begin_.Create());
    UCUDNN_RETURN_IF_ERROR(end_.Create());
    if (!std::holds_alternative<GraphScope>(scope)) {
      UCUDNN_RETURN_IF_ERROR(descriptors_.Create(problem_));
    }
    for (const size_t bytes : sizes) {
      cuda::DeviceBuffer& buffer = buffers_.emplace_back(handle_.memory(), driver_);
      UCUDNN_RETURN_IF_ERROR(handle_.MakeOperand(buffer, bytes));
    }
    for (const Racer& racer : racers) UCUDNN_RETURN_IF_ERROR(Add(racer));
    return handle_.stream().Synchronize();
  }

  // Returns the median time of each racer.
  Result<std::vector<double>> Run() {
    for (Entry& entry : entries_) {
      // The first run loads code and warms caches. The second run shows how many runs a sample
      // needs.
      UCUDNN_RETURN_IF_ERROR(Sample(entry).status());
      UCUDNN_ASSIGN_OR_RETURN(const double once_ms, Sample(entry));
      entry.repeats =
          once_ms > 0 ? std::clamp(static_cast<int>(std::ceil(kSampleMs / once_ms)), 1, kMaxRepeats)
                      : kMaxRepeats;
      // If one run is long enough for a sample, the second run counts as a sample. Then there is a
      // sample even if no time is left for a round.
      if (entry.repeats == 1) entry.samples_ms.push_back(once_ms);
    }
    for (int round = 0; round < kRounds; ++round) {
      if (Clock::now() >= limits_.deadline) break;
      for (Entry& entry : entries_) {
        UCUDNN_ASSIGN_OR_RETURN(const double sample_ms, Sample(entry));
        entry.samples_ms.push_back(sample_ms);
      }
    }
    if (entries_.back().samples_ms.empty()) return Status::Error("timing in place takes too long");
    std::vector<double> times_ms;
    for (const Entry& entry : entries_) times_ms.push_back(Median(entry.samples_ms));
    return times_ms;
  }

  bool lacks_memory() const { return lacks_memory_; }

 private:
  static constexpr int kRounds = 7;
  // In milliseconds. If one run of a racer is shorter, a sample consists of several runs, back to
  // back.
  static constexpr double kSampleMs = 5;
  static constexpr int kMaxRepeats = 50;
  struct Entry {
    size_t workspace_bytes;
    std::unique_ptr<execution::Schedule> schedule;
    int repeats = 1;
    std::vector<double> samples_ms = {};
  };

  Status Add(const Racer& racer) {
    const auto engines = MakeEngines(racer.scope, functions_, handle_.get());
    UCUDNN_ASSIGN_OR_RETURN(
        auto schedule,
        execution::Schedule::Make(
            *engines, {problem_, racer.division, {}, fused_, {}, {&driver_, &functions_}}));
    entries_.push_back({racer.workspace_bytes, std::move(schedule)});
    return Status::Ok();
  }

  Status RunOnce(const Entry& entry) {
    cudnn::FusedPointers fused{fused_};
    for (size_t i = 0; i < fused_.size(); ++i) fused.pointers[i] = buffers_[4 + i].data();
    cudnn::ConvolutionCall call = handle_.CallOf(problem_);
    call.descriptors = descriptors_.get();
    call.x = buffers_[0].data();
    call.w = buffers_[1].data();
    call.y = buffers_[2].data();
    call.workspace = entry.workspace_bytes > 0 ? buffers_[3].data() : nullptr;
    call.workspace_bytes = entry.workspace_bytes;
    call.fused = &fused;
    execution::Outcome outcome;
    const cudnnStatus_t status = entry.schedule->Run(call, outcome);
    if (status == CUDNN_STATUS_SUCCESS && outcome != execution::Outcome::kPlanned) {
      return Status::Error("a plan did not run as planned");
    }
    return cudnn::CudnnStatus(functions_, status, "running a plan");
  }

  // Returns the mean time of entry.repeats runs, back to back.
  Result<double> Sample(const Entry& entry) {
    UCUDNN_RETURN_IF_ERROR(begin_.Record(handle_.stream().get()));
    for (int i = 0; i < entry.repeats; ++i) UCUDNN_RETURN_IF_ERROR(RunOnce(entry));
    UCUDNN_RETURN_IF_ERROR(end_.Record(handle_.stream().get()));
    UCUDNN_ASSIGN_OR_RETURN(const double total_ms, end_.MillisecondsSince(begin_));
    return total_ms / entry.repeats;
  }

  const cudnn::Functions& functions_;
  const cuda::Driver& driver_;
  const ConvolutionProblem problem_;
  const MeasureLimits& limits_;
  FusedOperands fused_;
  bool lacks_memory_ = false;
  TuningHandle handle_;
  cudnn::OwnedDescriptors descriptors_;     // for legacy engines
  std::deque<cuda::DeviceBuffer> buffers_;  // for x, w, y, the workspace and each fused operand
  cuda::Event begin_, end_;
  std::vector<Entry> entries_;
};

}  // namespace

RaceResult Race(const Device& device, const ConvolutionProblem& problem,
                const std::vector<Racer>& racers, const MeasureLimits& limits) {
  const cuda::ContextScope context(*device.driver, device.context);
  const cuda::RelaxedCaptureScope relaxed(*device.driver);
  try {
    RaceTrack track(device, problem, limits);
    if (Status status = track.Prepare(racers); !status.ok()) {
      return {std::move(status), track.lacks_memory(), {}};
    }
    Result<std::vector<double>> times_ms = track.Run();
    if (!times_ms.ok()) return {times_ms.status(), false, {}};
    return {Status::Ok(), false, std::move(*times_ms)};
  } catch (const std::bad_alloc&) {
    return {Status::Error("out of host memory"), false, {}};
  }
}

}  // namespace ucudnn::tuning
