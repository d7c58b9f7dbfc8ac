// Small operations on text that the standard library lacks. Pure functions, ASCII only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ucudnn {

std::string_view Trim(std::string_view text);
bool EqualsIgnoreCase(std::string_view a, std::string_view b);
std::vector<std::string> Split(std::string_view text, char separator);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

// Formats with four significant digits, or with all digits before the point if these are more:
// "12.35 ms".
std::string Milliseconds(double ms);

// Formats a value of unknown origin for a message: in single quotes, with unprintable bytes as
// \xNN, cut after 60 characters.
std::string Quoted(std::string_view text);

// Returns the one of `names` that `text` most likely misspells: the name that needs the fewest
// single-character edits to become `text`, ignoring case. Returns an empty text if all names need
// too many edits.
std::string NearestName(std::string_view text, const std::vector<std::string>& names);

}  // namespace ucudnn
