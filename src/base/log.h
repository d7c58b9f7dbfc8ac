// Lines for the user: UCUDNN_LOG and UCUDNN_LOG_FILE decide what is written where. Thread-safe; a
// line is one write, so lines of several processes do not mix. Never throws, never fails the
// caller.
#pragma once

#include <string>

namespace ucudnn {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

// Lines of `level` and more important go to `file` (appended; empty: stderr), marked with the rank
// of this process in its job (-1: none) and its pid.
void ConfigureLog(LogLevel level, const std::string& file, int rank);

bool LogEnabled(LogLevel level);
void Log(LogLevel level, const std::string& message);
// Also where no exception may pass: text that needs no memory before it is known to be written.
void Log(LogLevel level, const char* message);

// One warning per cause and process. `cause` names the kind of fault, `message` this instance.
void WarnOnce(const std::string& cause, const std::string& message);
// Where no exception may pass.
void WarnOnce(const char* cause, const char* message) noexcept;

}  // namespace ucudnn
