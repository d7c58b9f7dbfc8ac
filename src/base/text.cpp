#include "base/text.h"

#include <algorithm>
#include <cstdio>

namespace ucudnn {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 60;
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "'";
  for (const char c : text.substr(0, kShown)) {
    if (c >= ' ' && c <= '~') {
      quoted += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      quoted += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return quoted + (text.size() > kShown ? "...'" : "'");
}

std::string NearestName(std::string_view text, const std::vector<std::string>& names) {
  // A longer text is not a misspelt name. The limit also bounds the time of the search.
  constexpr size_t kLongest = 64;
  if (text.size() > kLongest) return {};
  std::string nearest;
  size_t fewest = std::max<size_t>(text.size() / 2, 1) + 1;
  std::vector<size_t> edits;
  for (const std::string& name : names) {
    edits.resize(name.size() + 1);
    for (size_t j = 0; j <= name.size(); ++j) edits[j] = j;
    for (size_t i = 0; i < text.size(); ++i) {
      size_t diagonal = edits[0];
      edits[0] = i + 1;
      for (size_t j = 0; j < name.size(); ++j) {
        const size_t replaced = diagonal + (Lower(text[i]) == Lower(name[j]) ? 0 : 1);
        diagonal = edits[j + 1];
        edits[j + 1] = std::min({replaced, edits[j] + 1, edits[j + 1] + 1});
      }
    }
    if (edits.back() < fewest) {
      fewest = edits.back();
      nearest = name;
    }
  }
  return nearest;
}

std::string Milliseconds(double ms) {
  char text[352];  // the largest double has 309 digits before the point
  std::snprintf(text, sizeof text, ms < 1000 ? "%.4g ms" : "%.0f ms", ms);
  return text;
}

}  // namespace ucudnn
