#include "report_file.h"

#include <algorithm>
#include <fstream>

#include "convolution/columns.h"
#include "suites.h"

namespace ucudnn::test {

using nlohmann::json;

json ReadReport() { return ReadReport(ReportPath()); }

json ReadReport(const std::string& path) {
  std::ifstream file(path);
  if (!file) return nullptr;
  return json::parse(file);
}

std::vector<json> KernelsOf(const json& report, const ConvolutionProblem& problem) {
  std::vector<json> found;
  if (report.is_null()) return found;
  const auto columns = ToColumns(problem);
  for (const json& kernel : report["kernels"]) {
    if (kernel["op"] != OperationName(problem.operation)) continue;
    const json& fields = kernel["problem"];
    const bool same = std::all_of(columns.begin(), columns.end(), [&](const auto& column) {
      const auto& [name, text] = column;
      if (name == "op") return true;
      if (text.empty()) return !fields.contains(name);
      if (!fields.contains(name)) return false;
      return fields[name].is_string() ? fields[name] == text : fields[name].dump() == text;
    });
    if (same) found.push_back(kernel);
  }
  return found;
}

int Pieces(const json& kernel) {
  int pieces = 0;
  for (const json& run : kernel["plan"]) pieces += run["count"].get<int>();
  return pieces;
}

int Images(const json& kernel) {
  int images = 0;
  for (const json& run : kernel["plan"]) {
    images += run["count"].get<int>() * run["micro_batch"].get<int>();
  }
  return images;
}

std::vector<std::string> Engines(const json& kernel) {
  std::vector<std::string> engines;
  for (const json& run : kernel["plan"]) engines.push_back(run["engine"]);
  return engines;
}

}  // namespace ucudnn::test
