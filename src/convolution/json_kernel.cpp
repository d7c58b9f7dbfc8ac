#include "convolution/json_kernel.h"

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "convolution/columns.h"

namespace ucudnn {

ConvolutionProblem ReadProblem(const JsonPlace& kernel) {
  const JsonPlace place = kernel.Member("problem");
  place.Object();
  std::map<std::string, std::string> fields = {{"op", kernel.Member("op").Text()}};
  if (!place.ok()) return {};
  place.Member("n").Integer(1, std::numeric_limits<int32_t>::max());
  for (const JsonMember& column : place.value()->members) {
    const JsonValue& value = column.value;
    fields[column.name] = value.is(JsonValue::Kind::kText) ? value.text : Shown(value);
  }
  const Result<ConvolutionProblem> problem =
      FromColumns([&](const std::string& column) -> const std::string* {
        const auto found = fields.find(column);
        return found == fields.end() || found->second.empty() ? nullptr : &found->second;
      });
  if (problem.ok()) return *problem;
  place.Fault("makes no convolution: " + problem.message());
  return {};
}

std::optional<double> ReadPlan(const JsonPlace& list, int images, Configuration& configuration) {
  int64_t sum = 0;
  std::optional<double> total_ms = 0;
  for (const JsonPlace& place : list.Items()) {
    if (!place.ok()) return std::nullopt;
    Run run;
    run.micro.engine = place.Member("engine").Text();
    run.micro.micro_batch = static_cast<int>(place.Member("micro_batch").Integer(1, images));
    run.count = static_cast<int>(place.Member("count").Integer(1, images));
    run.micro.workspace_bytes = place.Member("workspace_bytes").Bytes();
    const std::optional<double> piece_ms = place.Member("piece_ms").Time();
    run.micro.time_ms = piece_ms.value_or(0);
    total_ms =
        total_ms && piece_ms ? std::optional(*total_ms + *piece_ms * run.count) : std::nullopt;
    sum += int64_t{run.micro.micro_batch} * run.count;
    configuration.runs.push_back(std::move(run));
    if (sum > images) break;
  }
  if (configuration.runs.empty()) return std::nullopt;
  if (sum != images) {
    list.Fault("has " + std::string(sum > images ? "more" : "fewer") + " images than the " +
               std::to_string(images) + " of its problem");
  }
  return total_ms;
}

}  // namespace ucudnn
