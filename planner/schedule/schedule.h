// One training step of a plan, spelled out for whoever executes it: which device has which box of
// which tensor, which boxes move, which gradients are added up, and one order of all of it. Plain
// values and pure functions over them. Thread-compatible. Source: DeePa, sections 3 and 5;
// Krizhevsky 2014, section 4. FORMAT.md says how a device reads a schedule.
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

// The part of a parameter that a device has: intervals of its first axes; further axes are whole.
struct ParameterPart {
  int device = 0;
  std::vector<Interval> ranges;

  bool operator==(const ParameterPart&) const = default;
};

// A parameter tensor as torch has it. `shape` lists its extents, outermost first.
struct ScheduledParameter {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<ParameterPart> parts;  // of rising devices
  int tensor = -1;                   // as Parameter::tensor
  bool trained = true;
};

// Elements of one part of a parameter of that shape.
int64_t Elements(const std::vector<int64_t>& shape, const ParameterPart& part);

struct ScheduledNode {
  std::string name;
  std::string op;              // as a `ucudnn-net` file calls it
  std::vector<NodeId> inputs;  // nodes of the schedule
  NodeId layer = 0;  // the node that it is computed with; its own id where it is a layer itself
  Shape shape;       // of the whole output
  ParallelConfiguration configuration;
  // Disjoint and covering the output; of an input, what each device loads.
  std::vector<DeviceBox> boxes;
  std::vector<std::vector<DeviceBox>> needs;  // of layers, by input
  std::vector<DeviceBox> partial;             // of layers whose degree r is more than 1
  std::vector<ScheduledParameter> parameters;
  // Elements kept until the backward pass beside each element of the output: an attention's scores.
  double inner = 0;
  int32_t groups = 0;  // as GroupNormalization has it; 0: the node is none
  bool by_position = false;

  bool IsInput() const { return inputs.empty(); }
};

constexpr int kPartialSums = -1;

// What `consumer` reads of the output of `node` and does not have where it needs it.
struct ScheduledExchange {
  NodeId node = 0;
  NodeId consumer = 0;
  int input = 0;         // of the consumer; kPartialSums: partial sums of `node`, which is both
  int64_t elements = 0;  // that move in the forward pass; as many gradients in the backward pass
};

// Gradients that devices add up, those of several parameters one behind the other.
struct GradientSum {
  struct Member {
    NodeId node = 0;
    int parameter = 0;  // position in its parameters
  };
  std::vector<Member> parameters;
  std::vector<int> devices;  // rising; each has the same part of every parameter
  int64_t elements = 0;      // on one device
};

// Gradients of the same devices are bundled up to so many elements, 25 MiB of fp32, and up to a
// quarter of all that these devices add up, lest nothing is sent before the last one is ready; but
// bundles of 1 MiB are small enough.
constexpr int64_t kMostBundled = int64_t{25} * (1 << 20) / 4;
constexpr int64_t kLeastBundled = int64_t{1} * (1 << 20) / 4;
constexpr int64_t kBundles = 4;

enum class StatisticsKind {
  kBatchNormalization,
  kGroupNormalization,
  kSoftmax,
  kClassifier,
  kLoss
};

// Numbers that go to the first device, are merged there and return.
struct StatisticsGroup {
  std::vector<int> devices;  // rising, two or more
  int64_t forward = 0;       // numbers a message
  int64_t backward = 0;
};

struct Statistics {
  NodeId node = 0;
  StatisticsKind kind = StatisticsKind::kLoss;
  std::vector<StatisticsGroup> groups;
};

// Labels of images that `to` computes a loss of and does not load.
struct LabelMessage {
  NodeId output = 0;
  int from = 0;
  int to = 0;
  Interval images;
};

enum class StepKind { kForward, kExchange, kWait, kStatistics, kBackward };

struct ScheduledStep {
  StepKind kind = StepKind::kForward;
  int of = 0;     // a node, an exchange or statistics; of kBackward: a pass
  int pass = -1;  // -1: of all images
};

enum class ConnectedUpdate { kEachPass, kEachBatch };

// Krizhevsky's schemes (b) and (c): the fully connected part takes the images in several passes.
struct Passes {
  char scheme = 'b';
  ConnectedUpdate update = ConnectedUpdate::kEachBatch;
  std::vector<NodeId> nodes;                  // rising
  std::vector<std::vector<Interval>> images;  // by pass

  int Count() const { return static_cast<int>(images.size()); }
};

struct Schedule {
  std::string name;
  std::string network;  // hash, see FORMAT.md
  int batch = 1;
  int devices = 1;
  UpdateModel update = UpdateModel::kOwner;
  std::vector<int> levels;  // of the machine, innermost first: groups that each level joins
  std::vector<ScheduledNode> nodes;
  std::vector<ScheduledExchange> exchanges;  // in the order of `order`
  std::vector<GradientSum> sums;             // in the order in which all devices take them
  std::vector<Statistics> statistics;
  std::vector<LabelMessage> labels;  // at the begin of a step
  std::vector<ScheduledStep> order;
  Passes passes;  // without images: one pass over all
};

// Nodes that no other reads, rising.
std::vector<NodeId> OutputsOf(const Schedule& schedule);

const ScheduledNode& NodeOf(const Schedule& schedule, NodeId node);

// The boxes of which an exchange sends parts, and those that it fills, by device. In pass `pass`
// (-1: all images), images are those of the pass: a box that has several intervals of them is
// several boxes.
struct ExchangeBoxes {
  std::vector<DeviceBox> held;
  std::vector<DeviceBox> needed;
};
ExchangeBoxes BoxesOf(const Schedule& schedule, const ScheduledExchange& exchange, int pass = -1);

// What moves in the forward pass, from each pair of boxes that meet.
std::vector<Transfer> TransfersOf(const Schedule& schedule, const ScheduledExchange& exchange,
                                  int pass = -1);

// Whether an exchange brings a pass its images from the nodes outside of the passes.
bool FeedsPasses(const Schedule& schedule, const ScheduledExchange& exchange);

}  // namespace ucudnn::planner
