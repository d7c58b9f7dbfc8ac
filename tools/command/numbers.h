// Functions that read numbers and lists from words of a command line, and format them for tables
// and sentences. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/text.h"

namespace ucudnn::command {

// Returns the number that `text` is, in decimal. Returns nothing if `text` is no number, or not one
// from `least` to `most` (by default any finite number).
template <class Number>
std::optional<Number> ParseNumber(std::string_view text,
                                  Number least = std::numeric_limits<Number>::lowest(),
                                  Number most = std::numeric_limits<Number>::max()) {
  Number number = 0;
  const bool is_all = ReadNumber(text, number);
  return is_all && number >= least && number <= most ? std::optional(number) : std::nullopt;
}
// Reads whole numbers from `least` to `most`, with `separator` between them. Returns nothing if a
// part of `text` is no such number.
std::optional<std::vector<int>> WholeNumbers(std::string_view text, char separator, int least,
                                             int most = std::numeric_limits<int>::max());
// Reads `text`, the value of `option`, as a whole number from `least` to `most`. The error names
// the option and ends with `expected`, by default "expected a whole number from LEAST to MOST".
Result<int> ParseWhole(const std::string& option, const std::string& text, int least, int most,
                       const std::string& expected = "");

// Formats a number with printf's format for one double, such as "%.3g".
std::string NumberText(const char* format, double number);
// Formats as "4,093".
std::string Grouped(int64_t number);
// Formats as "1 cycle", "2 cycles" or "2 micro-batches".
std::string Counted(int64_t number, const std::string& noun);

// Formats numbers with `separator` between them, such as "4x24x24".
template <typename Number>
std::string Joined(const std::vector<Number>& numbers, const char* separator) {
  std::string text;
  for (const Number number : numbers) {
    text += (text.empty() ? "" : separator) + std::to_string(number);
  }
  return text;
}
// Formats as "a, b and c".
std::string Listed(const std::vector<std::string>& texts);
// Formats at most three texts and the number of further ones, as "a, b, c and 4 more".
std::string FirstOf(const std::vector<std::string>& texts);

// Formats a result of cudnnGetVersion, as "9.19.0".
std::string CudnnVersion(size_t version);
// Formats a result of cuDriverGetVersion, as "13.0".
std::string DriverVersion(int version);

}  // namespace ucudnn::command
