// Numbers and lists: read from the texts of a command line, shown in tables and sentences. Pure
// functions.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn::command {

// The number that all of `text` is, in decimal digits, where it is from `least` to `most`.
template <class Number>
std::optional<Number> WholeNumber(std::string_view text, Number least,
                                  Number most = std::numeric_limits<Number>::max()) {
  Number number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const bool is_all = error == std::errc() && end == last;
  return is_all && number >= least && number <= most ? std::optional(number) : std::nullopt;
}
// The finite number that all of `text` is.
std::optional<double> RealNumber(std::string_view text);
// Whole numbers with `separator` between; none where a part of `text` is no such number.
std::optional<std::vector<int>> WholeNumbers(std::string_view text, char separator, int least,
                                             int most = std::numeric_limits<int>::max());
// What `option` is given. The error names it and says what was `expected`; without that, a whole
// number from `least` to `most`.
Result<int> ParseWhole(const std::string& option, const std::string& text, int least, int most,
                       const std::string& expected = "");

// By a format of printf for one double: "%.3g".
std::string NumberText(const char* format, double number);
// "4,093".
std::string Grouped(int64_t number);
// "1 cycle", "2 cycles", "2 micro-batches".
std::string Counted(int64_t number, const std::string& noun);

// "4x24x24".
template <typename Number>
std::string Joined(const std::vector<Number>& numbers, const char* separator) {
  std::string text;
  for (const Number number : numbers) {
    text += (text.empty() ? "" : separator) + std::to_string(number);
  }
  return text;
}
// "a, b and c".
std::string Listed(const std::vector<std::string>& texts);
// "a, b, c and 4 more".
std::string FirstOf(const std::vector<std::string>& texts);

// "9.19.0" from what cudnnGetVersion returns.
std::string CudnnVersion(size_t version);
// "13.0" from what cuDriverGetVersion gives.
std::string DriverVersion(int version);

}  // namespace ucudnn::command
