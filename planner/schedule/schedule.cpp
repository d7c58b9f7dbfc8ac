#include "planner/schedule/schedule.h"

#include <algorithm>

namespace ucudnn::planner {
namespace {

// Returns the parts of `boxes` that lie in the intervals `images` of the batch.
std::vector<DeviceBox> Cut(const std::vector<DeviceBox>& boxes,
                           const std::vector<Interval>& images) {
  std::vector<DeviceBox> cut;
  for (const Interval& interval : images) {
    for (DeviceBox one : boxes) {
      one.box[kAxisN] = Intersection(one.box[kAxisN], interval);
      if (Elements(one.box) > 0) cut.push_back(one);
    }
  }
  return cut;
}

}  // namespace

int64_t Elements(const std::vector<int64_t>& shape, const ParameterPart& part) {
  int64_t elements = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    elements *= axis < part.ranges.size() ? part.ranges[axis].Length() : shape[axis];
  }
  return elements;
}

std::vector<NodeId> OutputsOf(const Schedule& schedule) {
  std::vector<bool> is_read(schedule.nodes.size());
  for (const ScheduledNode& node : schedule.nodes) {
    for (const NodeId input : node.inputs) is_read[static_cast<size_t>(input)] = true;
  }
  std::vector<NodeId> outputs;
  for (size_t id = 0; id < schedule.nodes.size(); ++id) {
    if (!is_read[id] && !schedule.nodes[id].IsInput()) outputs.push_back(static_cast<NodeId>(id));
  }
  return outputs;
}

const ScheduledNode& NodeOf(const Schedule& schedule, NodeId node) {
  return schedule.nodes[static_cast<size_t>(node)];
}

ExchangeBoxes BoxesOf(const Schedule& schedule, const ScheduledExchange& exchange, int pass) {
  const ScheduledNode& node = NodeOf(schedule, exchange.node);
  ExchangeBoxes boxes;
  if (exchange.input == kPartialSums) {
    boxes = {node.partial, node.boxes};
  } else {
    boxes = {node.boxes,
             NodeOf(schedule, exchange.consumer).needs[static_cast<size_t>(exchange.input)]};
  }
  if (pass < 0) return boxes;
  const std::vector<Interval>& images = schedule.passes.images[static_cast<size_t>(pass)];
  return {Cut(boxes.held, images), Cut(boxes.needed, images)};
}

std::vector<Transfer> TransfersOf(const Schedule& schedule, const ScheduledExchange& exchange,
                                  int pass) {
  const ExchangeBoxes boxes = BoxesOf(schedule, exchange, pass);
  std::vector<Transfer> transfers;
  for (const DeviceBox& needed : boxes.needed) {
    for (const DeviceBox& held : boxes.held) {
      const Box box = Intersection(needed.box, held.box);
      if (held.device != needed.device && Elements(box) > 0) {
        transfers.push_back({held.device, needed.device, box});
      }
    }
  }
  return transfers;
}

bool FeedsPasses(const Schedule& schedule, const ScheduledExchange& exchange) {
  const std::vector<NodeId>& nodes = schedule.passes.nodes;
  return std::binary_search(nodes.begin(), nodes.end(), exchange.consumer) &&
         !std::binary_search(nodes.begin(), nodes.end(), exchange.node);
}

}  // namespace ucudnn::planner
