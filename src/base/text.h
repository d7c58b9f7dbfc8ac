// Small operations on text that the standard library lacks. Pure functions, ASCII only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ucudnn {

std::string_view Trim(std::string_view text);
bool EqualsIgnoreCase(std::string_view a, std::string_view b);
std::vector<std::string> Split(std::string_view text, char separator);

}  // namespace ucudnn
