// Decides which thread measures on which device, and for how long. At a time only one thread of
// this host measures on a device, within the time that is left for the kernel and for the process.
// Helper devices measure some of the sizes. Thread-safe.
#pragma once

#include <atomic>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "options/options.h"
#include "tuning/budget.h"
#include "tuning/device_lock.h"
#include "tuning/helper_devices.h"
#include "tuning/measure.h"
#include "tuning/measuring_progress.h"

namespace ucudnn::tuning {

class MeasuringTurns {
 public:
  // For the arguments see MeasuredKernels.
  MeasuringTurns(const std::optional<Tuning>& bounds, std::string lock_folder,
                 BenchmarkDevices helpers, MeasuringProgress& progress)
      : budget_(bounds),
        lock_folder_(std::move(lock_folder)),
        helpers_(std::move(helpers)),
        progress_(progress) {}

  // Returns whether a kernel on which `spent` was spent so far may still be measured.
  bool HasTime(Clock::duration spent) const {
    return budget_.Deadline(Use::kMeasuring, spent) > Clock::now();
  }
  void Spend(Use use, Clock::duration taken);
  // See Budget::EndOfTurn.
  Clock::time_point EndOfTurn(const ConvolutionProblem& problem);

  // A time during which no other thread of the host measures on the device. If `lock` is none, the
  // kernel got no turn, and `why` says why not. Take gets a turn for a kernel on which `spent` was
  // spent so far; the turn ends at `until` at the latest. Take may wait for the device, and charges
  // the waiting time to the process.
  struct Turn {
    std::optional<DeviceLock> lock;  // none: the kernel got no turn
    Clock::time_point deadline;
    std::string why;
  };
  Result<Turn> Take(Use use, const Device& device, Clock::duration spent,
                    Clock::time_point until = Clock::time_point::max());
  // Returns the limits for measuring or comparing that begins now and ends at `deadline`.
  MeasureLimits LimitsNow(const Device& device, Clock::time_point deadline) const;

  // Runs MeasureEngines on `device`, whose lock the caller holds, and on helper devices.
  Result<EngineMeasurements> MeasureSizes(const Device& device, const MeasuringTask& task,
                                          const MeasureLimits& limits);
  // Opens helper devices. Called before a turn that may need them, because opening takes long and
  // should not be charged to the kernel.
  void OpenHelpers(const Device& device);
  // See HelperDevices::Release.
  void ReleaseHelpers() { helpers_.Release(); }

 private:
  Budget budget_;
  const std::string lock_folder_;
  HelperDevices helpers_;
  MeasuringProgress& progress_;
  // Until this time no kernel waits for a device that others hold.
  std::atomic<Clock::rep> busy_until_ = std::numeric_limits<Clock::rep>::min();
};

}  // namespace ucudnn::tuning
