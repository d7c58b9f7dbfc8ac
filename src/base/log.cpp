#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <set>

#include "base/mutex.h"

namespace ucudnn {
namespace {

struct LogState {
  std::atomic<LogLevel> level{LogLevel::kWarn};
  std::atomic<int> descriptor{STDERR_FILENO};
  std::atomic<int> rank{-1};
  TerminalLine line{STDERR_FILENO};
  Mutex mutex;
  std::set<std::string> causes UCUDNN_GUARDED_BY(mutex);
};

// Never destroyed, because threads may log while the process exits. Allocates nothing, because
// memory may be out when a caller logs.
LogState& State() {
  alignas(LogState) static std::byte storage[sizeof(LogState)];
  static LogState* const state = new (storage) LogState;
  return *state;
}

constexpr const char* kLevelNames[] = {"error", "warning", "info", "debug"};

}  // namespace

void ConfigureLog(LogLevel level, const std::string& file, int rank) {
  LogState& state = State();
  state.level = level;
  state.rank = rank;
  if (file.empty()) return;
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    WarnOnce("log file", "UCUDNN_LOG_FILE '" + file + "' cannot be opened; logging to stderr");
  } else {
    state.descriptor = descriptor;
  }
}

TerminalLine& StderrLine() { return State().line; }

bool LogEnabled(LogLevel level) { return level <= State().level.load(std::memory_order_relaxed); }

void Log(LogLevel level, const std::string& message) {
  if (!LogEnabled(level)) return;
  try {
    LogState& state = State();
    std::string line = "ucudnn";
    if (state.rank >= 0) line += " rank " + std::to_string(state.rank);
    line += "[" + std::to_string(getpid()) + "] " + kLevelNames[static_cast<int>(level)] + ": " +
            message;
    // A control character in a file's name or another library's message must not break the line.
    std::replace_if(
        line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
    line += "\n";
    if (state.descriptor == STDERR_FILENO) state.line.Erase();
    // If the write fails, there is no other place to report that.
    [[maybe_unused]] const ssize_t written = write(state.descriptor, line.data(), line.size());
  } catch (...) {
  }
}

void Log(LogLevel level, const char* message) {
  if (!LogEnabled(level)) return;
  try {
    Log(level, std::string(message));
  } catch (...) {
  }
}

void WarnOnce(const std::string& cause, const std::string& message) {
  try {
    LogState& state = State();
    {
      MutexLock lock(state.mutex);
      if (!state.causes.insert(cause).second) return;
    }
    Log(LogLevel::kWarn, message);
  } catch (...) {
  }
}

void WarnOnce(const char* cause, const char* message) noexcept {
  try {
    WarnOnce(std::string(cause), std::string(message));
  } catch (...) {
  }
}

}  // namespace ucudnn
