// Whole numbers of the command line and of names. Pure.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

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

}  // namespace ucudnn::command
