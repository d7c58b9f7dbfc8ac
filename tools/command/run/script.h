// Reads the beginning of a script, and finds the words of a shell's text. A file that is not
// regular is closed unread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::command {

// Returns the first 64 KiB of a file; nothing if the file is not regular or cannot be read.
std::optional<std::string> ReadStart(const std::string& path);

// Returns the interpreter that the first line of a script names. If that is `env`, returns the
// program that `env` starts. Returns an empty text if the first line does not begin with "#!".
std::string InterpreterOf(std::string_view text);

// Returns the lines of a script that are not comments, up to the first zero byte.
std::string Statements(std::string_view text);

// Returns the words of a shell's text that may name programs or files, in order. Ignores quotes and
// grammar, and does not expand variables.
std::vector<std::string> ShellWords(std::string_view text);

}  // namespace ucudnn::command
