#include "base/json_members.h"

#include <algorithm>
#include <cstdio>

#include "base/json_scalar.h"
#include "base/text.h"

namespace ucudnn::json {
namespace {

std::string Lines(const std::vector<std::string>& members, char open, char close, int depth) {
  if (depth == kOneLine) return open + Join(members, ", ") + close;
  if (members.empty()) return {open, close};
  const std::string indent(2 * (depth + 1), ' ');
  std::string text(1, open);
  for (const std::string& member : members) {
    text += (text.size() > 1 ? ",\n" : "\n") + indent + member;
  }
  return text + "\n" + std::string(2 * depth, ' ') + close;
}

}  // namespace

std::string FormatObject(const Fields& fields, int depth) {
  std::vector<std::string> members;
  for (const auto& [name, value] : fields) members.push_back(JsonScalar(name) + ": " + value);
  return Lines(members, '{', '}', depth);
}

std::string FormatList(const std::vector<std::string>& values, int depth) {
  return Lines(values, '[', ']', depth);
}

std::string FormatText(std::string_view text) { return JsonScalar(text); }

std::string FormatNumber(double number) { return JsonScalar(number); }

std::string Thousandths::Write(int) const {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", std::max(ms, 0.0));
  return text;
}

void Thousandths::Read(const JsonPlace& place) const {
  const std::optional<double> read = place.Time();
  if (!read) place.Refuse("milliseconds");
  ms = read.value_or(0);
}

}  // namespace ucudnn::json
