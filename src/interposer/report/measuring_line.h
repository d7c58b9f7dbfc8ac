// Tells a user at a terminal why the program stands still: one line, rewritten while kernels are
// measured, once that has kept the program waiting for a second in all; and a last line at the end
// of the process. Thread-safe; never throws.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "base/mutex.h"
#include "base/options.h"
#include "base/terminal_line.h"
#include "tuning/measuring_progress.h"

namespace ucudnn::interposer {

struct MeasuringLineUse {
  bool tells = false;     // a user at a terminal wants to know
  bool rewrites = false;  // the terminal can rewrite a line
};
MeasuringLineUse MeasuringLineUseOf(const Options& options);

class MeasuringLine : public tuning::MeasuringProgress {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  // The caller owns `terminal` and keeps it alive; whether it is one is asked here, once. `now` is
  // the time; tests have one of their own.
  MeasuringLine(TerminalLine& terminal, MeasuringLineUse use, Now now = Clock::now);

  void Begin() noexcept override;
  void End() noexcept override;
  void Tell(const tuning::MeasuringStep& step) noexcept override;

  // The process ends, and has measured `kernels` kernels; `place` says where they are stored
  // (empty: nowhere). Nothing is told any more.
  void Close(long kernels, const std::string& place) noexcept;

 private:
  Clock::duration Waited() const UCUDNN_REQUIRES(mutex_);

  TerminalLine& terminal_;
  const MeasuringLineUse use_;
  const Now now_;
  const pid_t owner_;  // a forked child tells nothing
  Mutex mutex_;
  int waiting_ UCUDNN_GUARDED_BY(mutex_) = 0;          // threads, or scopes of them
  Clock::time_point since_ UCUDNN_GUARDED_BY(mutex_);  // some thread waits
  // How long at least one thread waited, before `since_`.
  Clock::duration waited_ UCUDNN_GUARDED_BY(mutex_) = {};
  Clock::time_point next_ UCUDNN_GUARDED_BY(mutex_);  // the line is not rewritten before
  bool closed_ UCUDNN_GUARDED_BY(mutex_) = false;
};

// "micro-batch 4, engine 2 of 8 of forward 16x64x56x56 -> 64, 3x3 pad 1x1 fp32 nchw"
std::string StepText(const tuning::MeasuringStep& step);

}  // namespace ucudnn::interposer
