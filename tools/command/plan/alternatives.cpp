#include "command/plan/alternatives.h"

#include <cstdio>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "command/numbers.h"
#include "command/text_table.h"
#include "planner/search/search.h"

namespace ucudnn::command {
namespace {

using namespace ucudnn::planner;

std::string Differences(const PlanningProblem& problem, const Assignment& first,
                        const Assignment& other) {
  std::string text;
  for (int layer = 0; layer < static_cast<int>(first.size()); ++layer) {
    const ParallelConfiguration& before = ConfigurationOf(problem, first, layer);
    const ParallelConfiguration& after = ConfigurationOf(problem, other, layer);
    if (before == after) continue;
    if (!text.empty()) text += ", ";
    text += problem.graph.layers[static_cast<size_t>(layer)].name + " " + Describe(after.degrees);
    if (after.first_device != before.first_device) {
      text += " from device " + std::to_string(after.first_device);
    }
  }
  return text.empty() ? "-" : text;
}

}  // namespace

Status PrintBestPlans(const PlanningProblem& problem, int plans) {
  SearchOptions options;
  options.plans = plans;
  UCUDNN_ASSIGN_OR_RETURN(const SearchResult found, Search(problem.search, options));
  if (!found.optimal) {
    return Status::Error("the search is not exact, so what comes next is not known");
  }
  const TextColumns columns = {
      {"plan", -6, 0}, {"total ms", 12}, {"where it differs from the first", 0, 2}};
  std::printf("\n");
  PrintHead(columns);
  int number = 0;
  for (const Plan& plan : found.plans) {
    if (plan.total_ms >= planner::kForbiddenMs) break;
    PrintRow(columns, {std::to_string(++number), NumberText("%.6g", plan.total_ms),
                       Differences(problem, found.plans[0].assignment, plan.assignment)});
  }
  return Status::Ok();
}

Status PrintFrontier(const PlanningProblem& problem, int points) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<ParetoPoint> frontier,
                          TimeMemoryFrontier(problem.search, points));
  const TextColumns columns = {
      {"memory", 12, 0}, {"total ms", 12}, {"where it differs from the fastest", 0, 2}};
  std::printf("\n");
  PrintHead(columns);
  for (const ParetoPoint& point : frontier) {
    PrintRow(
        columns,
        {FormatByteSize(static_cast<size_t>(point.bytes)), NumberText("%.6g", point.plan.total_ms),
         Differences(problem, frontier[0].plan.assignment, point.plan.assignment)},
        point.optimal ? "" : " (not proved to be the fastest)");
  }
  return Status::Ok();
}

}  // namespace ucudnn::command
