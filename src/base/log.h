// Lines for the user. UCUDNN_LOG and UCUDNN_LOG_FILE decide what is written where. Thread-safe; a
// line is one write, so lines of several processes do not mix. Never throws, never fails the
// caller.
#pragma once

#include <string>

#include "base/terminal_line.h"

namespace ucudnn {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

// Lines of importance `level` or more are appended to `file` (empty: stderr). They are marked with
// the rank of this process in its job (-1: none) and its process id.
void ConfigureLog(LogLevel level, const std::string& file, int rank);

bool LogEnabled(LogLevel level);
void Log(LogLevel level, const std::string& message);
// Writes a line. It may be called where no exception may escape, and allocates only for a line that
// is written.
void Log(LogLevel level, const char* message);

// Returns the line at the end of stderr's terminal, one for the process. It is erased before a log
// line goes to stderr.
TerminalLine& StderrLine();

// Warns once for each cause and process. `cause` names the kind of fault, `message` this instance
// of it.
void WarnOnce(const std::string& cause, const std::string& message);
// WarnOnce for places that no exception may leave.
void WarnOnce(const char* cause, const char* message) noexcept;

}  // namespace ucudnn
