#include "tuning/parallel_measure.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/log.h"
#include "convolution/partial_sums.h"
#include "tuning/spread.h"

namespace ucudnn::tuning {
namespace {

void Append(std::vector<int>& all, const std::vector<int>& part) {
  all.insert(all.end(), part.begin(), part.end());
}

// Adds the measurements of one place to `all`. Every place measures the summing of partials, but
// only the first measurement of the summing is kept.
void Append(EngineMeasurements& all, EngineMeasurements part) {
  const auto is_sum = [](const planning::Measurement& row) {
    return row.micro.engine.is_partial_sum();
  };
  const bool has_sum = std::any_of(all.measurements.begin(), all.measurements.end(), is_sum);
  for (planning::Measurement& row : part.measurements) {
    if (!has_sum || !is_sum(row)) all.measurements.push_back(std::move(row));
  }
  Append(all.complete_sizes, part.complete_sizes);
  Append(all.scarce_sizes, part.scarce_sizes);
  Append(all.late_sizes, part.late_sizes);
  all.sum_late |= part.sum_late;
  all.twins += part.twins;
  if (all.failure.ok()) all.failure = std::move(part.failure);
}

}  // namespace

Result<EngineMeasurements> MeasureAtPlaces(const std::vector<MeasuringPlace>& places,
                                           const MeasuringTask& task) {
  // A unit is one micro-batch size. The longest units come first. Otherwise one device could begin
  // a long unit when all other devices are done.
  std::vector<int> units = task.sizes;
  std::sort(units.begin(), units.end(), std::greater<>());
  std::vector<Result<EngineMeasurements>> parts(units.size(), Status::Error("not measured"));
  std::vector<char> doubtful(units.size(), false);
  const auto measure = [&](size_t place, size_t unit) -> Status {
    const MeasuringPlace& at = places[place];
    if (Clock::now() >= at.limits.deadline) {
      EngineMeasurements late;
      late.late_sizes = {units[unit]};
      late.sum_late = true;
      parts[unit] = std::move(late);
      return Status::Ok();
    }
    MeasuringTask one_size = task;
    one_size.sizes = {units[unit]};
    Result<EngineMeasurements> part = MeasureEngines(at.device, one_size, at.limits);
    // Place 0 is the kernel's own device; the other places are helpers. If a helper fails, its
    // error is returned, so that another place measures the unit. If place 0 cannot measure the
    // unit, no place can, so the error of place 0 is kept.
    if (!part.ok() && place != 0) return part.status();
    // An engine may fail on a helper only because the helper has less memory or is broken. So the
    // first place then measures the unit again.
    doubtful[unit] = place != 0 && part->engine_failed;
    parts[unit] = std::move(part);
    return Status::Ok();
  };
  const auto lost = [](size_t, const Status& why) {
    WarnOnce("helper device", "a device that helps to measure fails: " + why.message());
  };
  UCUDNN_RETURN_IF_ERROR(SpreadOverDevices(places.size(), units.size(), measure, lost));
  for (size_t unit = 0; unit < units.size(); ++unit) {
    if (doubtful[unit]) UCUDNN_RETURN_IF_ERROR(measure(0, unit));
  }
  EngineMeasurements all;
  Status failure;
  for (Result<EngineMeasurements>& part : parts) {
    if (part.ok()) {
      Append(all, std::move(*part));
    } else if (failure.ok()) {
      failure = part.status();
    }
  }
  // The summing is late only if no place has measured the summing.
  all.sum_late &= std::none_of(
      all.measurements.begin(), all.measurements.end(),
      [](const planning::Measurement& row) { return row.micro.engine.is_partial_sum(); });
  if (all.measurements.empty() && all.complete_sizes.empty() && all.late_sizes.empty()) {
    return failure.ok() ? Result<EngineMeasurements>(std::move(all)) : failure;
  }
  return all;
}

}  // namespace ucudnn::tuning
