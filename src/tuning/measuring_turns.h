// Who measures on which device, and for how long: one thread on this host measures a device at a
// time, each within what is left of its budget, and devices that help take sizes off the one that
// is asked for. Thread-safe.
#pragma once

#include <atomic>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "tuning/budget.h"
#include "tuning/device_lock.h"
#include "tuning/helper_devices.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

class MeasuringTurns {
 public:
  // As MeasuredKernels'.
  MeasuringTurns(const std::optional<Tuning>& bounds, std::string lock_folder,
                 BenchmarkDevices helpers)
      : budget_(bounds), lock_folder_(std::move(lock_folder)), helpers_(std::move(helpers)) {}

  // Whether a kernel that has taken `spent` has time left.
  bool HasTime(Clock::duration spent) const { return budget_.Deadline(spent) > Clock::now(); }
  void Spend(Clock::duration taken);

  // The device to ourselves, for as long as one kernel may take it that has taken it `spent`.
  struct Turn {
    std::optional<DeviceLock> lock;  // none: not now, and why
    Clock::time_point deadline;
    std::string why;
  };
  Result<Turn> Take(const Device& device, Clock::duration spent);
  // What one use of the device may take that begins now.
  MeasureLimits LimitsNow(const Device& device, Clock::time_point deadline) const;

  // MeasureEngines on `device`, whose turn it is, and whoever helps it.
  Result<EngineMeasurements> MeasureSizes(const Device& device, const ConvolutionProblem& problem,
                                          const std::vector<int>& sizes,
                                          const MeasureLimits& limits, const IsKnown& is_known,
                                          const EngineScope& scope);
  // Before a turn that may need them: that takes long, and is no kernel's own time.
  void OpenHelpers(const Device& device);
  // Nobody is to measure any more, for all that is known.
  void ReleaseHelpers() { helpers_.Release(); }

 private:
  Budget budget_;
  const std::string lock_folder_;
  HelperDevices helpers_;
  std::atomic<Clock::rep> busy_until_ = std::numeric_limits<Clock::rep>::min();  // nobody waits
};

}  // namespace ucudnn::tuning
