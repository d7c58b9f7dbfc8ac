#include "planner/layout/what_if.h"

namespace ucudnn::planner {

std::vector<WhatIf> WhatIfTable(
    const PlanningProblem& problem, const Assignment& assignment,
    const std::vector<std::vector<std::optional<double>>>& best_total_ms, int layer) {
  const auto at = static_cast<size_t>(layer);
  std::vector<const SearchProblem::Edge*> inputs;
  for (const SearchProblem::Edge& edge : problem.search.edges) {
    if (edge.to == layer) inputs.push_back(&edge);
  }
  std::vector<WhatIf> rows;
  for (size_t choice = 0; choice < problem.configurations[at].size(); ++choice) {
    WhatIf row;
    row.configuration = problem.configurations[at][choice];
    row.compute_ms = problem.compute[at][choice].ms;
    row.measured = problem.compute[at][choice].measured;
    row.transfer_ms = problem.reduction_ms[at][choice];
    row.update_ms = problem.update_ms[at][choice];
    for (const SearchProblem::Edge* edge : inputs) {
      const auto from = static_cast<size_t>(assignment[static_cast<size_t>(edge->from)]);
      row.transfer_ms += edge->ms[from * problem.configurations[at].size() + choice];
    }
    row.total_ms = row.transfer_ms + row.compute_ms + row.update_ms;
    if (!best_total_ms.empty()) row.best_total_ms = best_total_ms[at][choice];
    rows.push_back(row);
  }
  return rows;
}

}  // namespace ucudnn::planner
