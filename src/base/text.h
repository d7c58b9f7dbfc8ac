// Small operations on text that the standard library lacks. Pure functions, ASCII only.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace ucudnn {

std::string_view Trim(std::string_view text);
bool EqualsIgnoreCase(std::string_view a, std::string_view b);
std::vector<std::string> Split(std::string_view text, char separator);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

// Reads all of `text` as a number into `number`. `base` may be given if Number is an integer type;
// it is 10 by default. Returns whether `text` is such a number and nothing else. If not, `number`
// has no meaning.
template <typename Number, typename... Base>
bool ReadNumber(std::string_view text, Number& number, Base... base) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base...);
  return error == std::errc() && stop == end;
}

// Formats with four significant digits, or with all digits before the point if there are more than
// four: "12.35 ms".
std::string Milliseconds(double ms);

// Formats a value of unknown origin for a message: in single quotes, with unprintable bytes as
// \xNN, and cut after 60 bytes.
std::string Quoted(std::string_view text);

// Returns the name of `names` that `text` most likely misspells: the name that becomes `text` by
// the fewest edits of single characters, ignoring case. Returns an empty text if all names need too
// many edits.
std::string NearestName(std::string_view text, const std::vector<std::string>& names);

}  // namespace ucudnn
