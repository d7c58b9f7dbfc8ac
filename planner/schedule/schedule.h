// One training step of a plan in full detail: the boxes of tensors on each device, the boxes that
// move, the gradients that are added up, and one order of all these. Plain values and pure
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

// A device's part of a parameter: one interval for each of the tensor's first axes. Along the
// remaining axes the part has all positions.
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
  int tensor = -1;                   // Parameter::tensor
  bool trained = true;
};

// Returns the number of elements of `part`, a part of a parameter of shape `shape`.
int64_t Elements(const std::vector<int64_t>& shape, const ParameterPart& part);

struct ScheduledNode {
  std::string name;
  std::string op;              // the operator's name in a `ucudnn-net` file
  std::vector<NodeId> inputs;  // ids of nodes of the schedule
  NodeId layer = 0;  // the layer that computes the node; the node's own id if it is a layer
  Shape shape;       // of the whole output
  ParallelConfiguration configuration;
  // Disjoint boxes that cover the output. For an input: the boxes that each device loads, which may
  // overlap.
  std::vector<DeviceBox> boxes;
  // For layers, by input: the boxes that each device needs.
  std::vector<std::vector<DeviceBox>> needs;
  // For layers whose degree r is more than 1: the boxes of partial sums.
  std::vector<DeviceBox> partial;
  std::vector<ScheduledParameter> parameters;
  // For each element of the output, the number of elements that the node keeps until the backward
  // pass in addition to its output. It is above 0 only for an attention, which keeps its scores.
  double inner = 0;
  int32_t groups = 0;  // GroupNormalization's groups; 0 for other operators
  bool by_position = false;
  bool has_gradient = false;  // whether the backward pass computes the output's gradient

  bool IsInput() const { return inputs.empty(); }
};

constexpr int kPartialSums = -1;

// The transfers of the output of `node` to `consumer`. They bring the consumer's devices the parts
// that these devices need and lack.
struct ScheduledExchange {
  NodeId node = 0;
  NodeId consumer = 0;
  // Number of the consumer's input. kPartialSums means partial sums of `node`, which is then also
  // the consumer.
  int input = 0;
  // Elements moved in the forward pass. The backward pass moves as many if `node` has a gradient.
  int64_t elements = 0;
};

// Gradients that devices add up. The gradients of several parameters follow one another in one
// buffer.
struct GradientSum {
  struct Member {
    NodeId node = 0;
    int parameter = 0;  // position in the node's parameters
  };
  std::vector<Member> parameters;
  std::vector<int> devices;  // in ascending order; each has the same part of every parameter
  int64_t elements = 0;      // on one device
};

// Gradients of the same devices are bundled, so that sending begins before the last gradient is
// ready. A bundle has at most this many elements (25 MiB of fp32), and at most a quarter (1 /
// kBundles) of all gradients that these devices add up. A bundle may always hold kLeastBundled
// elements (1 MiB).
constexpr int64_t kMostBundled = int64_t{25} * (1 << 20) / 4;
constexpr int64_t kLeastBundled = int64_t{1} * (1 << 20) / 4;
constexpr int64_t kBundles = 4;

enum class StatisticsKind { kBatchNormalization, kGroupNormalization, kClassifier, kLoss };

// Numbers that every device of the group sends to the group's first device, which merges them and
// returns the result.
struct StatisticsGroup {
  std::vector<int> devices;  // in ascending order, two or more
  int64_t forward = 0;       // numbers per message
  int64_t backward = 0;      // numbers per message backward; sent only if the node has a gradient
};

struct Statistics {
  NodeId node = 0;
  StatisticsKind kind = StatisticsKind::kLoss;
  std::vector<StatisticsGroup> groups;
};

// Device `from` sends the labels of `images` to device `to`, which computes the loss of `output`
// for these images but does not load them.
struct LabelMessage {
  NodeId output = 0;
  int from = 0;
  int to = 0;
  Interval images;
};

enum class StepKind { kForward, kExchange, kWait, kStatistics, kBackward };

struct ScheduledStep {
  StepKind kind = StepKind::kForward;
  int of = 0;     // a position in nodes, exchanges or statistics; for kBackward the pass
  int pass = -1;  // -1: all images
};

enum class ConnectedUpdate { kEachPass, kEachBatch };

// Krizhevsky's schemes (b) and (c), which compute the fully connected part in several passes over
// the images.
struct Passes {
  char scheme = 'b';
  ConnectedUpdate update = ConnectedUpdate::kEachBatch;
  std::vector<NodeId> nodes;                  // in ascending order
  std::vector<std::vector<Interval>> images;  // by pass

  int Count() const { return static_cast<int>(images.size()); }
};

struct Schedule {
  std::string name;
  std::string network;  // a hash, described in FORMAT.md
  int batch = 1;
  int devices = 1;
  UpdateModel update = UpdateModel::kOwner;
  // For each level of the machine, innermost first, the number of groups that it joins.
  std::vector<int> levels;
  std::vector<ScheduledNode> nodes;
  std::vector<ScheduledExchange> exchanges;  // in the order in which `order` begins them
  std::vector<GradientSum> sums;             // in the order in which all devices perform them
  std::vector<Statistics> statistics;
  std::vector<LabelMessage> labels;  // sent at the beginning of a step
  std::vector<ScheduledStep> order;
  Passes passes;  // without images if all nodes run in one pass over all images
};

// Returns the nodes that no other node reads, in ascending order.
std::vector<NodeId> OutputsOf(const Schedule& schedule);

const ScheduledNode& NodeOf(const Schedule& schedule, NodeId node);

// The boxes from which an exchange sends and the boxes that it fills. If `pass` is -1, all images
// move. Otherwise only the images of that pass move, so a box that has several intervals of these
// images becomes several boxes.
struct ExchangeBoxes {
  std::vector<DeviceBox> held;
  std::vector<DeviceBox> needed;
};
ExchangeBoxes BoxesOf(const Schedule& schedule, const ScheduledExchange& exchange, int pass = -1);

// Returns the transfers of the forward pass: one for each pair of boxes on different devices that
// intersect.
std::vector<Transfer> TransfersOf(const Schedule& schedule, const ScheduledExchange& exchange,
                                  int pass = -1);

// Returns whether an exchange brings the nodes of a pass their images from nodes outside the
// passes.
bool FeedsPasses(const Schedule& schedule, const ScheduledExchange& exchange);

}  // namespace ucudnn::planner
