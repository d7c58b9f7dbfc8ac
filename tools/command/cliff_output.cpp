#include "command/cliff_output.h"

#include <cstdio>
#include <iostream>
#include <string>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/plan_output.h"
#include "command/versions.h"

namespace ucudnn::command {
namespace {

// What mu-cuDNN measured at AlexNet's conv2, forward, with cuDNN 7.0.1 (Fig. 1).
constexpr const char* kPaper = "4.51x";

double Ratio(double ms, double best_ms) { return best_ms > 0 ? ms / best_ms : 1; }

// Four digits, but whole milliseconds from a second on.
void PrintTimes(const std::optional<Contender>& contender, double best_ms) {
  if (contender) {
    std::printf(" %12s %5.2fx", Milliseconds(contender->run_ms).c_str(),
                Ratio(contender->run_ms, best_ms));
  } else {
    std::printf(" %19s", "nothing fits");
  }
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
  std::printf("%-12s %-15s %10s %12s %19s %19s  %s\n", "layer", "operation", "workspace", "best",
              "cuDNN, limited", "ucudnn, limited", "micro-batches");
  for (const Cliff& cliff : cliffs.kernels) {
    std::printf("%-12s %-15s %10s %12s", cliff.layer.name.substr(0, 12).c_str(),
                OperationName(cliff.layer.problem.operation),
                FormatByteSize(cliff.WorkspaceBytes()).c_str(),
                Milliseconds(cliff.best.run_ms).c_str());
    if (cliff.HasCliff()) {
      PrintTimes(cliff.real, cliff.best.run_ms);
      PrintTimes(cliff.ucudnn, cliff.best.run_ms);
      std::printf("  %s\n", cliff.ucudnn ? DivisionText(cliff.ucudnn->division).c_str() : "");
    } else {
      std::printf("   no cliff: the best engine needs no more\n");
    }
  }
  const CliffTotal total = cliffs.Total();
  std::printf("%-39s %12s", "total", Milliseconds(total.best_ms).c_str());
  PrintTimes(Contender{Configuration{}, total.real_ms}, total.best_ms);
  PrintTimes(Contender{Configuration{}, total.ucudnn_ms}, total.best_ms);
  std::printf("\n");
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
  json["kernels"] = Json::array();
  for (const Cliff& cliff : cliffs.kernels) {
    json["kernels"].push_back({{"name", cliff.layer.name},
                               {"op", OperationName(cliff.layer.problem.operation)},
                               {"problem", ProblemJson(cliff.layer.problem)},
                               {"limit_bytes", cliff.HasCliff() ? Json(cliff.limit_bytes) : Json()},
                               {"best", ContenderJson(cliff.best)},
                               {"real", ContenderJson(cliff.real)},
                               {"ucudnn", ContenderJson(cliff.ucudnn)}});
  }
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
