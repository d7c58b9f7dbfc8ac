#include "command/bench/cliff.h"

#include <cstdio>
#include <iostream>
#include <string>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/json.h"
#include "command/numbers.h"
#include "command/text_table.h"

namespace ucudnn::command {
namespace {

// How much slower AlexNet's conv2 runs beyond the cliff (forward, cuDNN 7.0.1; mu-cuDNN, Fig. 1).
constexpr const char* kPaper = "4.51x";

double Ratio(double ms, double best_ms) { return best_ms > 0 ? ms / best_ms : 1; }

// Formats a contender's time, as Milliseconds() does, and the ratio of this time to `best_ms`.
std::string TimesText(const std::optional<Contender>& contender, double best_ms) {
  if (!contender) return "nothing fits";
  char ratio[16];
  std::snprintf(ratio, sizeof ratio, " %5.2fx", Ratio(contender->run_ms, best_ms));
  return Milliseconds(contender->run_ms) + ratio;
}

Json ContenderJson(const std::optional<Contender>& contender) {
  if (!contender) return {};
  return {{"run_ms", contender->run_ms},
          {"planned_ms", contender->division.configuration.TimeMs()},
          {"workspace_bytes", contender->division.configuration.WorkspaceBytes()},
          {"plan", PlanJson(contender->division)}};
}

}  // namespace

void PrintCliffTable(const Cliffs& cliffs, const Options& options) {
  std::cout
      << cliffs.platform.device << ", cuDNN "
      << CudnnVersion(static_cast<size_t>(cliffs.platform.cudnn)) << ", policy "
      << BatchSizePolicyName(options.policy) << ", " << cliffs.measured
      << " measurements made now\n"
      << "The best engine in the workspace it needs; then within "
      << (options.workspace_limit ? FormatByteSize(*options.workspace_limit) : "one byte less")
      << ": cuDNN's next best\n"
         "engine, and ucudnn's micro-batches or tiles. Median times of running them in turn.\n";
  const TextColumns columns = {
      {"layer", -12, 0},      {"operation", -15},      {"workspace", 10},      {"best", 12},
      {"cuDNN, limited", 19}, {"ucudnn, limited", 19}, {"micro-batches", 0, 2}};
  PrintHead(columns);
  for (const Cliff& cliff : cliffs.kernels) {
    const double best_ms = cliff.best.run_ms;
    std::vector<std::string> cells = {
        cliff.layer.name.substr(0, 12), OperationName(cliff.layer.problem.operation),
        FormatByteSize(cliff.WorkspaceBytes()), Milliseconds(best_ms)};
    if (cliff.HasCliff()) {
      cells.insert(cells.end(), {TimesText(cliff.real, best_ms), TimesText(cliff.ucudnn, best_ms),
                                 cliff.ucudnn ? DivisionText(cliff.ucudnn->division) : ""});
    }
    PrintRow(columns, cells, cliff.HasCliff() ? "" : "   no cliff: the best engine needs no more");
  }
  const CliffTotal total = cliffs.Total();
  const auto of_total = [&](double ms) {
    return TimesText(Contender{Configuration{}, ms}, total.best_ms);
  };
  PrintRow(
      {{"", -39, 0}, columns[3], columns[4], columns[5]},
      {"total", Milliseconds(total.best_ms), of_total(total.real_ms), of_total(total.ucudnn_ms)});
  if (total.left_out > 0) {
    std::printf("The total leaves out %d kernels that nothing runs within their limit.\n",
                total.left_out);
  }
  std::printf("For comparison: %s for AlexNet's conv2 forward, cuDNN 7.0.1 (mu-cuDNN, Fig. 1).\n",
              kPaper);
}

void PrintCliffJson(const Cliffs& cliffs, const Options& options) {
  Json json = {{"format", "ucudnn-cliff"},
               {"version", 2},
               {"device", cliffs.platform.device},
               {"cudnn", cliffs.platform.cudnn},
               {"driver", cliffs.platform.driver},
               {"measured", cliffs.measured},
               {"policy", BatchSizePolicyName(options.policy)}};
  json["kernels"] = JsonList(cliffs.kernels, [](const Cliff& cliff) {
    return Json{{"name", cliff.layer.name},
                {"op", OperationName(cliff.layer.problem.operation)},
                {"problem", ProblemJson(cliff.layer.problem)},
                {"limit_bytes", cliff.HasCliff() ? Json(cliff.limit_bytes) : Json()},
                {"best", ContenderJson(cliff.best)},
                {"real", ContenderJson(cliff.real)},
                {"ucudnn", ContenderJson(cliff.ucudnn)}};
  });
  const CliffTotal total = cliffs.Total();
  json["total"] = {{"best_ms", total.best_ms},
                   {"real_ms", total.real_ms},
                   {"real_ratio", Ratio(total.real_ms, total.best_ms)},
                   {"ucudnn_ms", total.ucudnn_ms},
                   {"ucudnn_ratio", Ratio(total.ucudnn_ms, total.best_ms)},
                   {"left_out", total.left_out}};
  std::cout << JsonText(json);
}

}  // namespace ucudnn::command
