// One training step of a plan in full detail: which device has which box of which tensor, which
// boxes move, which gradients are added up, and one order of all these. Plain values and pure
// functions over them. Thread-compatible. Source: DeePa, sections 3 and 5; Krizhevsky 2014, section
// 4. FORMAT.md says how a device reads a schedule.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/configuration.h"
#include "planner/cost/update.h"
#include "planner/graph/graph.h"
#include "planner/layout/device_boxes.h"

namespace ucudnn::planner {

// A device's part of a parameter: intervals of its first axes. The other axes are whole.
struct ParameterPart {
  int device = 0;
  std::vector<Interval> ranges;

  bool operator==(const ParameterPart&) const = default;
};

// A parameter tensor in torch's layout. `shape` lists its extents, outermost first.
struct ScheduledParameter {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<ParameterPart> parts;  // in ascending order of devices
  int tensor = -1;                   // see Parameter::tensor
  bool trained = true;
};

// Returns the number of elements of one part of a parameter of that shape.
int64_t Elements(const std::vector<int64_t>& shape, const ParameterPart& part);

struct ScheduledNode {
  std::string name;
  std::string op;              // the operator's name in a `ucudnn-net` file
  std::vector<NodeId> inputs;  // ids of nodes of the schedule
  NodeId layer = 0;  // layer with which the node is computed; the node's own id if it is a layer
  Shape shape;       // of the whole output
  ParallelConfiguration configuration;
  // Boxes that are disjoint and cover the output. For an input: the boxes that each device loads.
  std::vector<DeviceBox> boxes;
  std::vector<std::vector<DeviceBox>> needs;  // for layers, by input
  std::vector<DeviceBox> partial;             // for layers whose degree r is more than 1
  std::vector<ScheduledParameter> parameters;
  // Elements kept until the backward pass per element of the output, beside the output: the scores
  // of an attention.
  double inner = 0;
  int32_t groups = 0;  // see GroupNormalization; 0 if the node is none
  bool by_position = false;
  bool has_gradient = false;  // whether the backward pass computes the output's gradient

  bool IsInput() const { return inputs.empty(); }
};

constexpr int kPartialSums = -1;

// What `consumer` reads of the output of `node` on devices that do not have it.
struct ScheduledExchange {
  NodeId node = 0;
  NodeId consumer = 0;
  // Number of the consumer's input; kPartialSums: partial sums of `node`, which is then also the
  // consumer.
  int input = 0;
  // Elements moved in the forward pass. The backward pass moves as many if `node` has a gradient.
  int64_t elements = 0;
};

// Gradients that devices add up. The gradients of several parameters lie one behind the other.
struct GradientSum {
  struct Member {
    NodeId node = 0;
    int parameter = 0;  // position in the node's parameters
  };
  std::vector<Member> parameters;
  std::vector<int> devices;  // in ascending order; each has the same part of every parameter
  int64_t elements = 0;      // on one device
};

// Gradients of the same devices are bundled up to this many elements, 25 MiB of fp32, and up to a
// quarter of all that these devices add up, so that sending begins before the last gradient is
// ready. Bundles of 1 MiB are not divided further.
constexpr int64_t kMostBundled = int64_t{25} * (1 << 20) / 4;
constexpr int64_t kLeastBundled = int64_t{1} * (1 << 20) / 4;
constexpr int64_t kBundles = 4;

enum class StatisticsKind { kBatchNormalization, kGroupNormalization, kClassifier, kLoss };

// Numbers that go to the first device, are merged there, and return.
struct StatisticsGroup {
  std::vector<int> devices;  // in ascending order, two or more
  int64_t forward = 0;       // numbers per message
  int64_t backward = 0;      // likewise; none are sent for a node without a gradient
};

struct Statistics {
  NodeId node = 0;
  StatisticsKind kind = StatisticsKind::kLoss;
  std::vector<StatisticsGroup> groups;
};

// Labels of images for which `to` computes a loss and which it does not load.
struct LabelMessage {
  NodeId output = 0;
  int from = 0;
  int to = 0;
  Interval images;
};

enum class StepKind { kForward, kExchange, kWait, kStatistics, kBackward };

struct ScheduledStep {
  StepKind kind = StepKind::kForward;
  int of = 0;     // a node, an exchange or statistics; for kBackward a pass
  int pass = -1;  // -1: all images
};

enum class ConnectedUpdate { kEachPass, kEachBatch };

// Krizhevsky's schemes (b) and (c): the fully connected part takes the images in several passes.
struct Passes {
  char scheme = 'b';
  ConnectedUpdate update = ConnectedUpdate::kEachBatch;
  std::vector<NodeId> nodes;                  // in ascending order
  std::vector<std::vector<Interval>> images;  // by pass

  int Count() const { return static_cast<int>(images.size()); }
};

struct Schedule {
  std::string name;
  std::string network;  // hash, see FORMAT.md
  int batch = 1;
  int devices = 1;
  UpdateModel update = UpdateModel::kOwner;
  // Levels of the machine, innermost first: the number of groups that each joins.
  std::vector<int> levels;
  std::vector<ScheduledNode> nodes;
  std::vector<ScheduledExchange> exchanges;  // in the order of `order`
  std::vector<GradientSum> sums;             // in the order in which all devices perform them
  std::vector<Statistics> statistics;
  std::vector<LabelMessage> labels;  // sent at the beginning of a step
  std::vector<ScheduledStep> order;
  Passes passes;  // no images: one pass over all images
};

// Returns the nodes that no other node reads, in ascending order.
std::vector<NodeId> OutputsOf(const Schedule& schedule);

const ScheduledNode& NodeOf(const Schedule& schedule, NodeId node);

// The boxes from which an exchange sends and the boxes that it fills, by device. In pass `pass`
// (-1: all images) only the images of the pass count: a box with several intervals of them becomes
// several boxes.
struct ExchangeBoxes {
  std::vector<DeviceBox> held;
  std::vector<DeviceBox> needed;
};
ExchangeBoxes BoxesOf(const Schedule& schedule, const ScheduledExchange& exchange, int pass = -1);

// Returns what moves in the forward pass, for each pair of boxes that intersect.
std::vector<Transfer> TransfersOf(const Schedule& schedule, const ScheduledExchange& exchange,
                                  int pass = -1);

// Returns whether an exchange brings a pass its images from nodes outside the passes.
bool FeedsPasses(const Schedule& schedule, const ScheduledExchange& exchange);

}  // namespace ucudnn::planner
