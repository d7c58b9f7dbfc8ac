#include "planner/schedule/statistics.h"

#include <algorithm>
#include <numeric>

namespace ucudnn::planner {
namespace {

// Devices whose boxes are the same along those axes on which `is_shared`.
template <typename IsShared>
std::vector<StatisticsGroup> GroupsOf(const ScheduledNode& node, const IsShared& is_shared,
                                      int64_t forward, int64_t backward) {
  std::vector<const DeviceBox*> first;
  std::vector<StatisticsGroup> groups;
  for (const DeviceBox& one : node.boxes) {
    size_t at = 0;
    const auto same = [&](const Box& other) {
      for (size_t axis = 0; axis < kTensorAxes; ++axis) {
        if (is_shared(axis) && !(one.box[axis] == other[axis])) return false;
      }
      return true;
    };
    while (at < first.size() && !same(first[at]->box)) ++at;
    if (at == first.size()) {
      int64_t numbers = 1;
      for (size_t axis = 0; axis < kTensorAxes; ++axis) {
        if (is_shared(axis)) numbers *= one.box[axis].Length();
      }
      first.push_back(&one);
      groups.push_back({{}, forward * numbers, backward * numbers});
    }
    groups[at].devices.push_back(one.device);
  }
  std::erase_if(groups, [](const StatisticsGroup& group) { return group.devices.size() < 2; });
  return groups;
}

bool IsChannels(size_t axis) { return axis == kAxisC; }
bool IsPosition(size_t axis) { return axis != kAxisC; }

// Outputs that a cross-entropy may follow.
bool IsClassifier(const ScheduledNode& node) {
  return node.op == "softmax" || node.op == "fully_connected" || node.op == "linear" ||
         node.op == "convolution";
}

}  // namespace

std::vector<Statistics> StatisticsOf(const Schedule& schedule) {
  const std::vector<NodeId> outputs = OutputsOf(schedule);
  std::vector<Statistics> all;
  const auto add = [&](NodeId node, StatisticsKind kind, std::vector<StatisticsGroup> groups) {
    if (!groups.empty()) all.push_back({node, kind, std::move(groups)});
  };
  for (size_t at = 0; at < schedule.nodes.size(); ++at) {
    const ScheduledNode& node = schedule.nodes[at];
    const auto id = static_cast<NodeId>(at);
    if (node.op == "batch_normalization") {
      add(id, StatisticsKind::kBatchNormalization, GroupsOf(node, IsChannels, 2, 2));
    } else if (node.op == "softmax" && !std::binary_search(outputs.begin(), outputs.end(), id)) {
      add(id, StatisticsKind::kSoftmax, GroupsOf(node, IsPosition, 2, 1));
    }
  }
  std::vector<int> everybody(static_cast<size_t>(schedule.devices));
  std::iota(everybody.begin(), everybody.end(), 0);
  for (const NodeId id : outputs) {
    const ScheduledNode& node = NodeOf(schedule, id);
    if (IsClassifier(node)) add(id, StatisticsKind::kClassifier, GroupsOf(node, IsPosition, 3, 0));
    add(id, StatisticsKind::kLoss, {{everybody, 1, 0}});
  }
  return all;
}

}  // namespace ucudnn::planner
