#include "planner/schedule/passes.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

// Returns the fully connected layers and all nodes that depend on them, in ascending order.
std::vector<NodeId> ConnectedPart(const Graph& graph) {
  std::vector<NodeId> part;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    const bool behind = std::any_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
      return std::binary_search(part.begin(), part.end(), input);
    });
    if (behind || std::holds_alternative<FullyConnected>(node.op)) {
      part.push_back(static_cast<NodeId>(id));
    }
  }
  return part;
}

// Returns the images of each worker of the layers that feed `part`, in ascending order. Fails if
// one of these layers divides anything but the images, or if two of them divide the images
// differently.
Result<std::vector<Interval>> ImagesOfWorkers(const Schedule& schedule,
                                              const std::vector<NodeId>& part) {
  std::vector<Interval> images;
  for (const NodeId id : part) {
    for (const NodeId input : NodeOf(schedule, id).inputs) {
      if (std::binary_search(part.begin(), part.end(), input)) continue;
      const ScheduledNode& feeder = NodeOf(schedule, input);
      std::vector<Interval> own;
      for (const DeviceBox& one : feeder.boxes) own.push_back(one.box[kAxisN]);
      const bool by_images =
          !feeder.IsInput() && static_cast<int>(own.size()) == feeder.configuration.degrees.n;
      if (!by_images || (!images.empty() && images != own)) {
        return Status::Error("layer " + Quoted(feeder.name) + " with " +
                             Describe(feeder.configuration.degrees) +
                             " feeds the fully connected part; expected one divided along the "
                             "images alone");
      }
      images = std::move(own);
    }
  }
  return images;
}

}  // namespace

Status DivideIntoPasses(const Graph& graph, const ScheduleOptions& options, Schedule& schedule) {
  const auto refuse = [&](const std::string& what) {
    return Status::Error(std::string("scheme ") + options.scheme + ": " + what);
  };
  std::vector<NodeId> part = ConnectedPart(graph);
  if (part.empty()) return refuse(graph.name + " has no fully connected layer");
  for (const NodeId output : OutputsOf(schedule)) {
    if (std::binary_search(part.begin(), part.end(), output)) continue;
    return refuse("output " + Quoted(NodeOf(schedule, output).name) +
                  " is outside of the fully connected part");
  }
  for (const NodeId id : part) {
    const ScheduledNode& node = NodeOf(schedule, id);
    if (std::holds_alternative<BatchNormalization>(graph.nodes[static_cast<size_t>(id)].op)) {
      return refuse("layer " + Quoted(NodeOf(schedule, node.layer).name) + " with " +
                    Describe(node.configuration.degrees) + ": batch normalization " +
                    Quoted(node.name) + " would see the images of one pass alone; expected none " +
                    "in the fully connected part");
    }
    if (node.configuration.degrees.n == 1) continue;
    return refuse("layer " + Quoted(node.name) + " with " + Describe(node.configuration.degrees) +
                  " is in the fully connected part; expected n of 1");
  }
  const Result<std::vector<Interval>> workers = ImagesOfWorkers(schedule, part);
  if (!workers.ok()) return refuse(workers.message());
  const int count = options.passes == 0 ? static_cast<int>(workers->size()) : options.passes;
  const int64_t most = options.scheme == 'b' ? schedule.batch : workers->back().Length();
  if (count > most) {
    return refuse(std::to_string(count) + " passes; expected 1 to " + std::to_string(most) +
                  (options.scheme == 'b' ? ", the images" : ", the images of one worker"));
  }
  Passes passes{options.scheme, options.connected_update, std::move(part), {}};
  for (int pass = 0; pass < count; ++pass) {
    passes.images.emplace_back();
    if (options.scheme == 'b') {
      passes.images.back().push_back(Part(schedule.batch, count, pass));
      continue;
    }
    for (const Interval& own : *workers) {
      const Interval share = Part(own.Length(), count, pass);
      passes.images.back().push_back({own.begin + share.begin, own.begin + share.end});
    }
  }
  schedule.passes = std::move(passes);
  return Status::Ok();
}

}  // namespace ucudnn::planner
