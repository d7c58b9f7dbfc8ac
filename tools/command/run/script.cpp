#include "command/run/script.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "base/text.h"
#include "command/run/program.h"

namespace ucudnn::command {
namespace {

constexpr size_t kMostBytes = 64u << 10;

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("/._-+~@").find(c) != std::string_view::npos;
}

}  // namespace

std::optional<std::string> ReadStart(const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO could block.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  std::optional<std::string> text;
  struct stat status;
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
    std::string bytes(kMostBytes, '\0');
    const ssize_t got = read(descriptor, bytes.data(), bytes.size());
    if (got >= 0) text = bytes.substr(0, static_cast<size_t>(got));
  }
  close(descriptor);
  return text;
}

std::string InterpreterOf(std::string_view text) {
  if (!text.starts_with("#!")) return {};
  std::istringstream words(std::string(text.substr(2, text.find('\n') - 2)));
  std::string word;
  if (words >> word && NameOf(word) != "env") return word;
  while (words >> word) {
    const bool is_assignment = word.find('=') != std::string::npos;
    if (!word.starts_with('-') && !is_assignment) return word;
  }
  return {};
}

std::string Statements(std::string_view text) {
  std::string statements;
  for (const std::string& line : Split(text.substr(0, text.find('\0')), '\n')) {
    if (!Trim(line).starts_with('#')) statements += line + "\n";
  }
  return statements;
}

std::vector<std::string> ShellWords(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
    if (end > at) words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace ucudnn::command
