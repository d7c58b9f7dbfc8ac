// Numbers as texts of tables and sentences. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ucudnn::command {

// By a format of printf for one double: "%.3g".
std::string NumberText(const char* format, double number);
// "4,093".
std::string Grouped(int64_t number);
// "1 cycle", "2 cycles".
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

}  // namespace ucudnn::command
