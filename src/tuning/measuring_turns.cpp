#include "tuning/measuring_turns.h"

#include <algorithm>
#include <memory>

#include "cuda/resources.h"
#include "tuning/parallel_measure.h"

namespace ucudnn::tuning {
namespace {

double MultiplyAdds(const ConvolutionProblem& problem) {
  const Spatial y = OutputExtents(problem);
  double count = static_cast<double>(problem.n) * problem.k * problem.c / problem.groups;
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    count *= static_cast<double>(problem.w[axis]) * y[axis];
  }
  return count;
}

}  // namespace

Clock::time_point MeasuringTurns::EndOfTurn(const ConvolutionProblem& problem) {
  return budget_.EndOfTurn(MultiplyAdds(problem));
}

void MeasuringTurns::Spend(Use use, Clock::duration taken) {
  budget_.Spend(use, taken);
  // The process has no time left for measuring, so helpers are no longer needed.
  if (!HasTime({})) helpers_.Release();
}

MeasureLimits MeasuringTurns::LimitsNow(const Device& device, Clock::time_point deadline) const {
  const cuda::ContextScope context(*device.driver, device.context);
  size_t free_bytes = 0, total_bytes = 0;
  if (device.driver->cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) free_bytes = 0;
  return {deadline, budget_.MemoryBytes(free_bytes)};
}

Result<MeasuringTurns::Turn> MeasuringTurns::Take(Use use, const Device& device,
                                                  Clock::duration spent, Clock::time_point until) {
  const Clock::time_point begin = Clock::now();
  Turn turn;
  turn.deadline = budget_.Deadline(use, spent);
  if (turn.deadline <= begin) {
    turn.why = "the time for measuring is used up";
    return turn;
  }
  if (until <= begin) {
    turn.why = "the time of this call is used up, a later one goes on";
    return turn;
  }
  turn.deadline = std::min(turn.deadline, until);
  UCUDNN_ASSIGN_OR_RETURN(const std::string name, DeviceName(device));
  // If a kernel has waited in vain, no kernel waits until ten times the length of that wait has
  // passed. So at most a tenth of the time is spent on waiting in vain.
  constexpr int kPatience = 10;
  const bool patient = begin.time_since_epoch().count() >= busy_until_.load();
  turn.lock = DeviceLock::Acquire(lock_folder_, name, begin);
  while (!turn.lock && patient && Clock::now() < turn.deadline) {
    progress_.Tell({Activity::kWaitingForDevice});
    const Clock::time_point told_again = Clock::now() + std::chrono::milliseconds(100);
    turn.lock = DeviceLock::Acquire(lock_folder_, name, std::min(turn.deadline, told_again));
  }
  const Clock::duration waited = Clock::now() - begin;
  Spend(use, waited);
  if (!turn.lock) {
    turn.why = "others measure on the device";
    if (patient) busy_until_ = (Clock::now() + kPatience * waited).time_since_epoch().count();
  }
  return turn;
}

void MeasuringTurns::OpenHelpers(const Device& device) {
  const Clock::time_point opening = Clock::now();
  helpers_.Beside(device);
  Spend(Use::kMeasuring, Clock::now() - opening);
}

Result<EngineMeasurements> MeasuringTurns::MeasureSizes(const Device& device,
                                                        const MeasuringTask& task,
                                                        const MeasureLimits& limits) {
  std::vector<std::shared_ptr<HeldDevice>> helpers;
  // Measurements under fit_bytes are few and are made in a fixed order, so helpers cannot share
  // them.
  if (task.sizes.size() > 1 && !limits.fit_bytes) helpers = helpers_.Beside(device);
  std::vector<MeasuringPlace> places;
  for (const auto& helper : helpers) {
    if (places.size() + 1 == task.sizes.size()) break;
    const Result<std::string> name = DeviceName(helper->device());
    if (!name.ok()) continue;
    // If another process or thread measures on a helper device, this kernel does not wait for the
    // helper.
    auto lock = DeviceLock::Acquire(lock_folder_, *name, Clock::now());
    if (!lock) continue;
    places.push_back(
        {helper->device(), LimitsNow(helper->device(), limits.deadline), std::move(lock)});
  }
  if (places.empty()) return MeasureEngines(device, task, limits);
  places.insert(places.begin(), MeasuringPlace{device, limits, std::nullopt});
  return MeasureAtPlaces(places, task);
}

}  // namespace ucudnn::tuning
