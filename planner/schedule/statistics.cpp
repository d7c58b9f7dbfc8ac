#include "planner/schedule/statistics.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace ucudnn::planner {
namespace {

// Returns a group for each set of two or more devices whose boxes are equal along all axes for
// which `is_shared` is true. `forward` and `backward` are numbers for each position along these
// axes; a group counts them for all positions of its boxes.
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

// Groups devices whose boxes have channels of the same normalization group. A box with channels of
// several normalization groups joins these into one StatisticsGroup. Each device sends two numbers
// per image and normalization group and, if the normalization is by position, per position.
std::vector<StatisticsGroup> GroupsOfNormalization(const ScheduledNode& node) {
  const int64_t width = node.shape.c / node.groups;
  std::vector<DeviceBox> boxes = node.boxes;
  const auto place = [&](const Box& box) {  // equal for boxes that share their numbers
    const bool by_position = node.by_position;
    return std::array{box[kAxisN].begin, by_position ? box[kAxisH].begin : 0,
                      by_position ? box[kAxisW].begin : 0};
  };
  std::stable_sort(boxes.begin(), boxes.end(), [&](const DeviceBox& a, const DeviceBox& b) {
    const auto of_a = place(a.box);
    const auto of_b = place(b.box);
    return of_a != of_b ? of_a < of_b : a.box[kAxisC].begin < b.box[kAxisC].begin;
  });
  std::vector<StatisticsGroup> groups;
  for (size_t first = 0, last = 0; first < boxes.size(); first = last) {
    const Box& box = boxes[first].box;
    Interval joined = {box[kAxisC].begin / width, box[kAxisC].begin / width + 1};
    std::vector<int> devices;
    for (; last < boxes.size() && place(boxes[last].box) == place(box); ++last) {
      const Interval& channels = boxes[last].box[kAxisC];
      if (channels.begin / width >= joined.end) break;
      joined.end = std::max(joined.end, CeilDivide(channels.end, width));
      devices.push_back(boxes[last].device);
    }
    if (devices.size() < 2) continue;
    std::sort(devices.begin(), devices.end());
    int64_t numbers = 2 * box[kAxisN].Length() * joined.Length();
    for (const size_t axis : {kAxisD, kAxisH, kAxisW}) {
      if (node.by_position) numbers *= box[axis].Length();
    }
    groups.push_back({std::move(devices), numbers, numbers});
  }
  return groups;
}

bool IsChannels(size_t axis) { return axis == kAxisC; }
bool IsPosition(size_t axis) { return axis != kAxisC; }

// Returns whether a program may apply a cross-entropy to this output.
bool IsClassifier(const ScheduledNode& node) {
  return node.op == "cross_entropy" || node.op == "softmax" || node.op == "fully_connected" ||
         node.op == "linear" || node.op == "convolution";
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
    } else if (node.groups > 0) {
      add(id, StatisticsKind::kGroupNormalization, GroupsOfNormalization(node));
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
