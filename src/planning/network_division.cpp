#include "planning/network_division.h"

#include <algorithm>
#include <set>

namespace ucudnn::planning {
namespace {

// Kernels that one size is chosen for, on all their lanes.
struct Group {
  std::vector<size_t> kernels;
  std::set<int> lanes;
};

std::vector<Group> GroupsOf(std::span<const NetworkKernel> kernels, bool one_each) {
  std::vector<Group> groups;
  for (size_t kernel = 0; kernel < kernels.size(); ++kernel) {
    Group own = {{kernel}, {kernels[kernel].lanes.begin(), kernels[kernel].lanes.end()}};
    const auto meets = [&](const Group& other) {
      return !one_each && std::any_of(other.lanes.begin(), other.lanes.end(),
                                      [&](int lane) { return own.lanes.contains(lane); });
    };
    for (Group& other : groups) {
      if (!meets(other)) continue;
      own.kernels.insert(own.kernels.begin(), other.kernels.begin(), other.kernels.end());
      own.lanes.merge(other.lanes);
      other.kernels.clear();
      other.lanes.clear();
    }
    std::erase_if(groups, [](const Group& group) { return group.kernels.empty(); });
    groups.push_back(std::move(own));
  }
  return groups;
}

double TimeWithin(const NetworkKernel& kernel, size_t bytes) {
  double time_ms = 0;
  for (const Configuration& choice : kernel.choices) {
    if (choice.WorkspaceBytes() <= bytes) time_ms = choice.TimeMs();
  }
  return time_ms * kernel.calls;
}

// Every size that makes one of its kernels faster, by rising size, as far as the budget goes.
std::vector<size_t> SizesOf(const Group& group, std::span<const NetworkKernel> kernels,
                            size_t budget_bytes) {
  std::set<size_t> sizes = {0};
  for (const size_t kernel : group.kernels) {
    for (const Configuration& choice : kernels[kernel].choices) {
      if (choice.WorkspaceBytes() <= budget_bytes / group.lanes.size()) {
        sizes.insert(choice.WorkspaceBytes());
      }
    }
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace

Result<DividedNetwork> DivideNetwork(std::span<const NetworkKernel> kernels, size_t budget_bytes,
                                     WorkspaceDivision division, DivisionSolver& solver) {
  for (const NetworkKernel& kernel : kernels) {
    if (kernel.choices.empty() || kernel.choices[0].WorkspaceBytes() > 0 || kernel.lanes.empty()) {
      return Status::Error("a kernel cannot run without workspace");
    }
  }
  const std::vector<Group> groups = GroupsOf(kernels, division == WorkspaceDivision::kDisjoint);
  std::vector<std::vector<size_t>> sizes;
  std::vector<Choices> choices;
  for (const Group& group : groups) {
    sizes.push_back(SizesOf(group, kernels, budget_bytes));
    Choices& own = choices.emplace_back();
    for (const size_t bytes : sizes.back()) {
      double time_ms = 0;
      for (const size_t kernel : group.kernels) time_ms += TimeWithin(kernels[kernel], bytes);
      own.push_back({bytes * group.lanes.size(), time_ms});
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(const Selection selection, solver.Solve(choices, budget_bytes));
  DividedNetwork divided;
  divided.optimal = selection.optimal;
  divided.share_bytes.resize(kernels.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t bytes = sizes[i][selection.chosen[i]];
    divided.total_bytes += choices[i][selection.chosen[i]].workspace_bytes;
    divided.total_time_ms += choices[i][selection.chosen[i]].time_ms;
    for (const size_t kernel : groups[i].kernels) divided.share_bytes[kernel] = bytes;
    const int of = division == WorkspaceDivision::kDisjoint ? static_cast<int>(groups[i].kernels[0])
                                                            : Slot::kEveryKernel;
    if (bytes == 0) continue;
    for (const int lane : groups[i].lanes) divided.slots.push_back({of, lane, bytes});
  }
  if (divided.total_bytes > budget_bytes) {
    return Status::Error(std::string("solver ") + solver.Name() + " exceeds the budget");
  }
  return divided;
}

}  // namespace ucudnn::planning
