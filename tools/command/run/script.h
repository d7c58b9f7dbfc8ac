// What the beginning of a file says when it is a script, and the words of a shell's text. Files may
// be anything: what is no regular file is not opened for long, and little of a long one is read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn::command {

// The first 64 KiB of a regular file; nothing where it cannot be read.
std::optional<std::string> ReadStart(const std::string& path);

// The interpreter in a script's first line, as it is written there: behind `env` the word that
// means a program. Empty for what is no script.
std::string InterpreterOf(std::string_view text);

// The lines of a script without those that are comments, up to where it becomes binary.
std::string Statements(std::string_view text);

// All that may name a program or a file in a shell's text, in order: neither its quotes nor its
// grammar are heeded, and variables are not expanded.
std::vector<std::string> ShellWords(std::string_view text);

}  // namespace ucudnn::command
