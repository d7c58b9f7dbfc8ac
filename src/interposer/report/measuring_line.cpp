#include "interposer/report/measuring_line.h"

#include <unistd.h>

#include <cstdio>

#include "base/log.h"

namespace ucudnn::interposer {
namespace {

using tuning::Activity;
using tuning::MeasuringStep;

// Shorter waits are not shown.
constexpr std::chrono::seconds kPatience{1};
// If the line were rewritten more often, nobody could read it.
constexpr std::chrono::milliseconds kRewrites{100};

double SecondsOf(MeasuringLine::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::string SecondsText(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

}  // namespace

MeasuringLineUse MeasuringLineUseOf(const Options& options) {
  // The ranks of a job wait at the same time, so only rank 0 shows the line. The terminal stays
  // quiet for a user who wants only errors, or who has the log in a file.
  const bool tells =
      options.log_level >= LogLevel::kWarn && options.log_file.empty() && options.rank <= 0;
  return {tells, options.rewrites_lines};
}

MeasuringLine::MeasuringLine(TerminalLine& terminal, MeasuringLineUse use, Now now)
    : terminal_(terminal),
      use_{use.tells && terminal.IsTerminal(), use.rewrites},
      now_(now),
      owner_(getpid()) {}

void MeasuringLine::Begin() noexcept {
  // If this process is a forked child, the fork may have left the mutex locked for ever.
  if (getpid() != owner_) return;
  MutexLock lock(mutex_);
  if (waiting_++ == 0) since_ = now_();
}

void MeasuringLine::End() noexcept {
  if (getpid() != owner_) return;
  MutexLock lock(mutex_);
  if (--waiting_ == 0) waited_ += now_() - since_;
  // The program may print now, so the line is erased. If another thread still waits, its next step
  // shows the line again.
  terminal_.Erase();
  next_ = {};
}

void MeasuringLine::Tell(const MeasuringStep& step) noexcept {
  if (!use_.tells || !use_.rewrites || getpid() != owner_) return;
  try {
    MutexLock lock(mutex_);
    const Clock::duration waited = Waited();
    const Clock::time_point now = now_();
    if (closed_ || waiting_ == 0 || waited < kPatience || now < next_) return;
    next_ = now + kRewrites;
    terminal_.Show("ucudnn: measuring, " + SecondsText(SecondsOf(waited)) + ": " + StepText(step));
  } catch (...) {
  }
}

void MeasuringLine::Close(long kernels, const std::string& place) noexcept {
  if (getpid() != owner_) return;
  try {
    MutexLock lock(mutex_);
    if (closed_) return;
    closed_ = true;
    terminal_.Erase();
    if (kernels == 0) return;
    const Clock::duration waited = Waited();
    const std::string text = "measured " + std::to_string(kernels) +
                             (kernels == 1 ? " kernel in " : " kernels in ") +
                             SecondsText(SecondsOf(waited)) + ", " +
                             (place.empty() ? "not stored" : "stored in " + place);
    if (LogEnabled(LogLevel::kInfo)) {
      Log(LogLevel::kInfo, text);
    } else if (use_.tells && waited >= kPatience) {
      terminal_.Print("ucudnn: " + text);
    }
  } catch (...) {
  }
}

MeasuringLine::Clock::duration MeasuringLine::Waited() const {
  return waiting_ == 0 ? waited_ : waited_ + (now_() - since_);
}

std::string StepText(const MeasuringStep& step) {
  const std::string kernel = step.problem == nullptr ? "" : Describe(*step.problem);
  switch (step.activity) {
    case Activity::kWaitingForDevice:
      return "another program measures on the device";
    case Activity::kBuildingEngines:
      return "building graph engines of " + kernel;
    case Activity::kComparing:
      return "comparing outputs of " + kernel;
    case Activity::kMeasuring:
      break;
  }
  if (step.engine == 0) return "sum of partials of " + kernel;
  return "micro-batch " + std::to_string(step.micro_batch) + ", engine " +
         std::to_string(step.engine) + " of " + std::to_string(step.engines) + " of " + kernel;
}

}  // namespace ucudnn::interposer
