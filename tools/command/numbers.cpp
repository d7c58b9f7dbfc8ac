#include "command/numbers.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace ucudnn::command {

std::optional<std::vector<int>> WholeNumbers(std::string_view text, char separator, int least,
                                             int most) {
  std::vector<int> numbers;
  for (const std::string& word : Split(text, separator)) {
    const auto number = ParseNumber<int>(word, least, most);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

Result<int> ParseWhole(const std::string& option, const std::string& text, int least, int most,
                       const std::string& expected) {
  if (const auto number = ParseNumber<int>(text, least, most)) return *number;
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  return Status::Error(option + " " + Quoted(text) + ": " +
                       (expected.empty() ? "expected a whole number from " + range : expected));
}

std::string NumberText(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string Grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string Counted(int64_t number, const std::string& noun) {
  const char* const plural = noun.ends_with("h") ? "es" : "s";
  return std::to_string(number) + " " + noun + (number == 1 ? "" : plural);
}

std::string Listed(const std::vector<std::string>& texts) {
  if (texts.size() < 2) return Join(texts, "");
  return Join({texts.begin(), texts.end() - 1}, ", ") + " and " + texts.back();
}

std::string FirstOf(const std::vector<std::string>& texts) {
  constexpr size_t kShown = 3;
  if (texts.size() <= kShown) return Join(texts, ", ");
  return Join({texts.begin(), texts.begin() + kShown}, ", ") + " and " +
         std::to_string(texts.size() - kShown) + " more";
}

std::string CudnnVersion(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string DriverVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace ucudnn::command
