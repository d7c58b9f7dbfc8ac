#include "interposer/report/json_text.h"

#include "base/text.h"
#include "convolution/columns.h"

namespace ucudnn::interposer::json {
namespace {

std::string Lines(const std::vector<std::string>& members, char open, char close, int depth) {
  if (members.empty()) return {open, close};
  const std::string indent(2 * (depth + 1), ' ');
  std::string text(1, open);
  for (const std::string& member : members) {
    text += (text.size() > 1 ? ",\n" : "\n") + indent + member;
  }
  return text + "\n" + std::string(2 * depth, ' ') + close;
}

// Formats a column as a number if it is one, else as text.
std::string ColumnText(const std::string& text) {
  const bool number = text.find_first_not_of("-0123456789") == std::string::npos;
  return number ? text : Scalar(text);
}

}  // namespace

std::string Object(const Fields& fields, int depth) {
  std::vector<std::string> members;
  for (const auto& [name, value] : fields) members.push_back(Scalar(name) + ": " + value);
  return Lines(members, '{', '}', depth);
}

std::string Array(const std::vector<std::string>& values, int depth) {
  return Lines(values, '[', ']', depth);
}

std::string Line(const std::vector<std::string>& values) { return "[" + Join(values, ", ") + "]"; }

std::string Problem(const ConvolutionProblem& problem, int depth) {
  Fields fields = {{"n", Scalar(problem.n)}};
  for (const auto& [column, text] : ToColumns(problem)) {
    if (!text.empty() && column != "op" && column != "n") {
      fields.emplace_back(column, ColumnText(text));
    }
  }
  return Object(fields, depth);
}

}  // namespace ucudnn::interposer::json
