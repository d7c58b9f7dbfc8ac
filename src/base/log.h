// Lines for the user. UCUDNN_LOG and UCUDNN_LOG_FILE decide which lines are written, and where.
// Thread-safe; each line is one write, so lines of several processes do not mix. No function
// reports an error to its caller. Log and WarnOnce never throw.
#pragma once

#include <string>

#include "base/terminal_line.h"

namespace ucudnn {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

// From now on, lines of importance `level` or more are appended to `file` (empty: stderr). Each
// line has the rank of this process in its job (-1: none) and the process id. If the file cannot be
// opened, a warning says so, and lines go to stderr.
void ConfigureLog(LogLevel level, const std::string& file, int rank);

bool LogEnabled(LogLevel level);
void Log(LogLevel level, const std::string& message);
// Writes a line, for callers that must not throw. Allocates only if the line is written.
void Log(LogLevel level, const char* message);

// Returns the process's TerminalLine on stderr. Log erases the TerminalLine's text before it writes
// a line to stderr.
TerminalLine& StderrLine();

// Warns once in this process for each `cause`, which names the kind of fault. `message` describes
// this fault.
void WarnOnce(const std::string& cause, const std::string& message);
// Like the other WarnOnce, for callers that must not throw.
void WarnOnce(const char* cause, const char* message) noexcept;

}  // namespace ucudnn
