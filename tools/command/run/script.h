// The beginning of a script file, and the words of a shell's text. Files may be of any kind: a file
// that is not regular is closed unread, and of a long file only the beginning is read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::command {

// Returns the first 64 KiB of a regular file; none if it cannot be read.
std::optional<std::string> ReadStart(const std::string& path);

// Returns the interpreter that a script's first line names. If that is `env`, returns the program
// that a word behind `env` names. Returns an empty text for a file that is no script.
std::string InterpreterOf(std::string_view text);

// Returns the lines of a script without comments, up to the first binary data.
std::string Statements(std::string_view text);

// Returns all words of a shell's text that may name a program or a file, in order. Ignores quotes
// and grammar, and does not expand variables.
std::vector<std::string> ShellWords(std::string_view text);

}  // namespace ucudnn::command
