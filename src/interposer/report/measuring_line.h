// Tells a user at a terminal why the program stands still. Once the program has waited for a second
// in total, a line shows what is being measured, and is rewritten as measuring goes on. At the end
// of the process a last line says how much was measured. Thread-safe; never throws.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "base/mutex.h"
#include "base/terminal_line.h"
#include "options/options.h"
#include "tuning/measuring_progress.h"

namespace ucudnn::interposer {

struct MeasuringLineUse {
  bool tells = false;     // a user at a terminal may want to see the line
  bool rewrites = false;  // the terminal can rewrite a line
};
MeasuringLineUse MeasuringLineUseOf(const Options& options);

class MeasuringLine : public tuning::MeasuringProgress {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  // The caller owns `terminal` and keeps it alive. Only the constructor tests whether `terminal` is
  // a terminal. `now` returns the time; tests replace it.
  MeasuringLine(TerminalLine& terminal, MeasuringLineUse use, Now now = Clock::now);

  void Begin() noexcept override;
  void End() noexcept override;
  void Tell(const tuning::MeasuringStep& step) noexcept override;

  // To be called at the end of the process. `kernels` is the number of kernels that the process has
  // measured; `place` says where their measurements are stored (empty: nowhere). Nothing is shown
  // afterwards.
  void Close(long kernels, const std::string& place) noexcept;

 private:
  Clock::duration Waited() const UCUDNN_REQUIRES(mutex_);

  TerminalLine& terminal_;
  const MeasuringLineUse use_;
  const Now now_;
  const pid_t owner_;  // a forked child, whose process id differs, shows nothing
  Mutex mutex_;
  int waiting_ UCUDNN_GUARDED_BY(mutex_) = 0;          // number of Begin calls that have not ended
  Clock::time_point since_ UCUDNN_GUARDED_BY(mutex_);  // when the present wait began
  // The time during which at least one thread waited, not counting the present wait.
  Clock::duration waited_ UCUDNN_GUARDED_BY(mutex_) = {};
  Clock::time_point next_ UCUDNN_GUARDED_BY(mutex_);  // the line is not rewritten before this time
  bool closed_ UCUDNN_GUARDED_BY(mutex_) = false;
};

// Formats "micro-batch 4, engine 2 of 8 of forward 16x64x56x56 -> 64, 3x3 pad 1x1 fp32 nchw".
std::string StepText(const tuning::MeasuringStep& step);

}  // namespace ucudnn::interposer
