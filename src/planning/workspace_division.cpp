#include "planning/workspace_division.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>

namespace ucudnn::planning {
namespace {

// Sizes may come from files, so their sum may exceed size_t.
size_t SaturatingSum(size_t a, size_t b) {
  return a > std::numeric_limits<size_t>::max() - b ? std::numeric_limits<size_t>::max() : a + b;
}

bool OwnSegments(WorkspaceDivision division) { return division == WorkspaceDivision::kDisjoint; }

std::vector<size_t> WorkspacesOf(std::span<const DesirableConfigurations> kernels,
                                 const std::vector<size_t>& chosen) {
  assert(chosen.size() == kernels.size());
  std::vector<size_t> bytes;
  for (size_t i = 0; i < kernels.size(); ++i) {
    assert(chosen[i] < kernels[i].size());
    bytes.push_back(kernels[i][chosen[i]].WorkspaceBytes());
  }
  return bytes;
}

Result<Selection> Solve(std::span<const DesirableConfigurations> kernels,
                        std::span<const size_t> layers, size_t budget_bytes,
                        DivisionSolver& solver) {
  std::vector<Choices> choices;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const double calls = layers.empty() ? 1 : static_cast<double>(layers[i]);
    Choices& own = choices.emplace_back();
    for (const Configuration& configuration : kernels[i]) {
      own.push_back({configuration.WorkspaceBytes(), configuration.TimeMs() * calls});
    }
  }
  return solver.Solve(choices, budget_bytes);
}

// Returns the selection for one shared segment: each kernel can use the whole budget, so each
// kernel gets its fastest configuration within the budget.
Selection FastestWithin(std::span<const DesirableConfigurations> kernels, size_t budget_bytes) {
  Selection selection;
  for (const DesirableConfigurations& kernel : kernels) {
    const auto past = std::partition_point(
        kernel.begin(), kernel.end(),
        [&](const Configuration& one) { return one.WorkspaceBytes() <= budget_bytes; });
    assert(past != kernel.begin());
    selection.chosen.push_back(static_cast<size_t>(past - kernel.begin()) - 1);
  }
  return selection;
}

}  // namespace

size_t ReservedBytes(std::span<const size_t> workspace_bytes, WorkspaceDivision division) {
  size_t reserved = 0;
  for (const size_t bytes : workspace_bytes) {
    reserved = OwnSegments(division) ? SaturatingSum(reserved, bytes) : std::max(reserved, bytes);
  }
  return reserved;
}

std::optional<Shortage> FindShortage(std::span<const DesirableConfigurations> kernels,
                                     size_t budget_bytes, WorkspaceDivision division) {
  const std::vector<size_t> least = WorkspacesOf(kernels, std::vector<size_t>(kernels.size(), 0));
  const size_t reserved = ReservedBytes(least, division);
  if (reserved <= budget_bytes) return std::nullopt;
  Shortage shortage{reserved - budget_bytes, {}};
  for (size_t i = 0; i < least.size(); ++i) {
    if (least[i] > (OwnSegments(division) ? 0 : budget_bytes)) shortage.kernels.push_back(i);
  }
  std::stable_sort(shortage.kernels.begin(), shortage.kernels.end(),
                   [&](size_t a, size_t b) { return least[a] > least[b]; });
  return shortage;
}

Result<DividedWorkspace> DivideWorkspace(std::span<const DesirableConfigurations> kernels,
                                         size_t budget_bytes, WorkspaceDivision division,
                                         DivisionSolver& solver, std::span<const size_t> layers) {
  for (const DesirableConfigurations& kernel : kernels) {
    if (kernel.empty()) return Status::Error("a kernel cannot run at all");
  }
  if (const auto shortage = FindShortage(kernels, budget_bytes, division)) {
    return Status::Error("the budget is short of " + std::to_string(shortage->missing_bytes) +
                         " bytes");
  }
  UCUDNN_ASSIGN_OR_RETURN(Selection selection, OwnSegments(division)
                                                   ? Solve(kernels, layers, budget_bytes, solver)
                                                   : FastestWithin(kernels, budget_bytes));
  DividedWorkspace divided;
  divided.total_bytes = ReservedBytes(WorkspacesOf(kernels, selection.chosen), division);
  if (divided.total_bytes > budget_bytes) {
    return Status::Error(std::string("solver ") + solver.Name() + " exceeds the budget");
  }
  divided.chosen = std::move(selection.chosen);
  divided.optimal = selection.optimal;
  divided.gap_ms = selection.gap_ms;
  return divided;
}

}  // namespace ucudnn::planning
