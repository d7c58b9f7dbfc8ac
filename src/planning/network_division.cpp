#include "planning/network_division.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

namespace ucudnn::planning {
namespace {

// Kernels whose slots have one size. The group has a slot of that size on each of `lanes`, the
// lanes on which one of the kernels runs.
struct Group {
  std::vector<size_t> kernels;
  std::vector<int> lanes;  // each lane once
};

std::vector<Group> OneEach(std::span<const NetworkKernel> kernels) {
  std::vector<Group> groups;
  for (size_t kernel = 0; kernel < kernels.size(); ++kernel) {
    groups.push_back({{kernel}, kernels[kernel].lanes});
  }
  return groups;
}

// Sets of lanes that have kernels in common; one lane represents each set.
class JoinedLanes {
 public:
  int Find(int lane) {
    int& next = next_.try_emplace(lane, lane).first->second;
    if (next == lane) return lane;
    const int found = Find(next);
    next_[lane] = found;
    return found;
  }
  void Join(int one, int other) { next_[Find(one)] = Find(other); }

 private:
  std::unordered_map<int, int> next_;
};

// Returns a group for each set of joined lanes, with all kernels on these lanes.
std::vector<Group> ByLanes(std::span<const NetworkKernel> kernels) {
  JoinedLanes joined;
  for (const NetworkKernel& kernel : kernels) {
    for (const int lane : kernel.lanes) joined.Join(lane, kernel.lanes[0]);
  }
  std::vector<Group> groups;
  std::unordered_map<int, size_t> positions;
  for (size_t kernel = 0; kernel < kernels.size(); ++kernel) {
    const std::vector<int>& lanes = kernels[kernel].lanes;
    const auto [entry, fresh] = positions.try_emplace(joined.Find(lanes[0]), groups.size());
    if (fresh) groups.emplace_back();
    Group& group = groups[entry->second];
    group.kernels.push_back(kernel);
    group.lanes.insert(group.lanes.end(), lanes.begin(), lanes.end());
  }
  for (Group& group : groups) {
    std::sort(group.lanes.begin(), group.lanes.end());
    group.lanes.erase(std::unique(group.lanes.begin(), group.lanes.end()), group.lanes.end());
  }
  return groups;
}

size_t Least(const NetworkKernel& kernel) {
  assert(!kernel.choices.empty());
  return kernel.choices[0].WorkspaceBytes();
}

// Returns the smallest workspace with which every kernel of a group can run.
size_t Least(const Group& group, std::span<const NetworkKernel> kernels) {
  size_t bytes = 0;
  for (const size_t kernel : group.kernels) bytes = std::max(bytes, Least(kernels[kernel]));
  return bytes;
}

// Returns the bytes that the budget lacks if every group gets its smallest workspace on each of its
// lanes.
size_t Missing(const std::vector<Group>& groups, std::span<const NetworkKernel> kernels,
               size_t budget_bytes) {
  size_t left = budget_bytes, missing = 0;
  for (const Group& group : groups) {
    const size_t bytes = Least(group, kernels);
    for (size_t lane = 0; lane < group.lanes.size(); ++lane) {
      const size_t taken = std::min(bytes, left);
      left -= taken;
      missing += std::min(bytes - taken, std::numeric_limits<size_t>::max() - missing);
    }
  }
  return missing;
}

double TimeWithin(const NetworkKernel& kernel, size_t bytes) {
  double time_ms = 0;
  for (const Configuration& choice : kernel.choices) {
    if (choice.WorkspaceBytes() <= bytes) time_ms = choice.TimeMs();
  }
  return time_ms * kernel.calls;
}

// Returns the sizes that a group may get, ascending: the smallest size, and every larger size that
// fits the budget and makes one of the group's kernels faster. The bytes of a choice are the sum
// over the group's lanes. The time of a choice is the sum over the group's kernels.
Choices ChoicesOf(const Group& group, std::span<const NetworkKernel> kernels, size_t budget_bytes) {
  assert(!group.kernels.empty() && !group.lanes.empty());
  double time_ms = 0;
  // A workspace size on one lane, and the time that a kernel saves with it compared with the
  // kernel's next smaller size.
  std::vector<std::pair<size_t, double>> savings;
  for (const size_t number : group.kernels) {
    const NetworkKernel& kernel = kernels[number];
    double slower_ms = kernel.choices[0].TimeMs();
    time_ms += slower_ms * kernel.calls;
    for (size_t i = 1; i < kernel.choices.size(); ++i) {
      const size_t bytes = kernel.choices[i].WorkspaceBytes();
      if (bytes > budget_bytes / group.lanes.size()) break;
      const double choice_ms = kernel.choices[i].TimeMs();
      assert(bytes >= kernel.choices[i - 1].WorkspaceBytes() && choice_ms <= slower_ms);
      savings.emplace_back(bytes, (slower_ms - choice_ms) * kernel.calls);
      slower_ms = choice_ms;
    }
  }
  std::sort(savings.begin(), savings.end());
  Choices choices = {{Least(group, kernels) * group.lanes.size(), time_ms}};
  for (const auto& [bytes, saved_ms] : savings) {
    // Rounding may make the difference slightly negative.
    time_ms = std::max(0.0, time_ms - saved_ms);
    const size_t all_lanes = bytes * group.lanes.size();
    if (choices.back().workspace_bytes < all_lanes) choices.push_back({all_lanes, time_ms});
    choices.back().time_ms = time_ms;
  }
  return choices;
}

Result<DividedNetwork> Divide(std::span<const NetworkKernel> kernels,
                              const std::vector<Group>& groups, bool by_kernel, size_t budget_bytes,
                              DivisionSolver& solver) {
  std::vector<Choices> choices;
  for (const Group& group : groups) choices.push_back(ChoicesOf(group, kernels, budget_bytes));
  UCUDNN_ASSIGN_OR_RETURN(const Selection selection, solver.Solve(choices, budget_bytes));
  assert(selection.chosen.size() == groups.size());
  DividedNetwork divided;
  divided.by_kernel = by_kernel;
  divided.optimal = selection.optimal;
  divided.gap_ms = selection.gap_ms;
  divided.share_bytes.resize(kernels.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t all_lanes = choices[i][selection.chosen[i]].workspace_bytes;
    const size_t bytes = all_lanes / groups[i].lanes.size();
    divided.total_bytes += all_lanes;
    for (const size_t kernel : groups[i].kernels) {
      divided.share_bytes[kernel] = bytes;
      divided.total_time_ms += TimeWithin(kernels[kernel], bytes);
    }
    divided.groups.push_back({groups[i].kernels, groups[i].lanes.size()});
    const int of = by_kernel ? static_cast<int>(groups[i].kernels[0]) : Slot::kEveryKernel;
    if (bytes == 0) continue;
    for (const int lane : groups[i].lanes) divided.slots.push_back({of, lane, bytes});
  }
  if (divided.total_bytes > budget_bytes) {
    return Status::Error(std::string("solver ") + solver.Name() + " exceeds the budget");
  }
  return divided;
}

}  // namespace

std::optional<Shortage> FindShortage(std::span<const NetworkKernel> kernels, size_t budget_bytes,
                                     WorkspaceDivision division) {
  Shortage shortage{Missing(OneEach(kernels), kernels, budget_bytes), {}};
  if (division != WorkspaceDivision::kDisjoint) {
    shortage.missing_bytes =
        std::min(shortage.missing_bytes, Missing(ByLanes(kernels), kernels, budget_bytes));
  }
  if (shortage.missing_bytes == 0) return std::nullopt;
  for (size_t kernel = 0; kernel < kernels.size(); ++kernel) {
    if (Least(kernels[kernel]) > 0) shortage.kernels.push_back(kernel);
  }
  std::stable_sort(shortage.kernels.begin(), shortage.kernels.end(),
                   [&](size_t a, size_t b) { return Least(kernels[a]) > Least(kernels[b]); });
  return shortage;
}

Result<DividedNetwork> DivideNetwork(std::span<const NetworkKernel> kernels, size_t budget_bytes,
                                     WorkspaceDivision division, DivisionSolver& solver) {
  for (const NetworkKernel& kernel : kernels) {
    if (kernel.choices.empty() || kernel.lanes.empty()) {
      return Status::Error("a kernel cannot run at all");
    }
  }
  if (const auto shortage = FindShortage(kernels, budget_bytes, division)) {
    return Status::Error("the budget is short of " + std::to_string(shortage->missing_bytes) +
                         " bytes");
  }
  const auto by_kernel = [&] {
    return Divide(kernels, OneEach(kernels), true, budget_bytes, solver);
  };
  if (division == WorkspaceDivision::kDisjoint) return by_kernel();
  const std::vector<Group> groups = ByLanes(kernels);
  if (Missing(groups, kernels, budget_bytes) > 0) return by_kernel();
  UCUDNN_ASSIGN_OR_RETURN(DividedNetwork of_lanes,
                          Divide(kernels, groups, false, budget_bytes, solver));
  // A lane's slot is never larger than the slots of the lane's kernels together. But joined lanes
  // have slots of one size, which one of the lanes may need and another cannot use. So the slots of
  // joined lanes may together need more than one slot for each kernel.
  if (std::all_of(groups.begin(), groups.end(),
                  [](const Group& group) { return group.lanes.size() == 1; }) ||
      Missing(OneEach(kernels), kernels, budget_bytes) > 0) {
    return of_lanes;
  }
  UCUDNN_ASSIGN_OR_RETURN(DividedNetwork of_kernels, by_kernel());
  const bool proven = of_lanes.optimal && of_kernels.optimal;
  const double least_ms = std::min(of_lanes.total_time_ms - of_lanes.gap_ms,
                                   of_kernels.total_time_ms - of_kernels.gap_ms);
  DividedNetwork& faster =
      of_kernels.total_time_ms < of_lanes.total_time_ms ? of_kernels : of_lanes;
  faster.optimal = proven;
  faster.gap_ms = proven ? 0 : faster.total_time_ms - least_ms;
  return std::move(faster);
}

}  // namespace ucudnn::planning
