// Compares schedules with brute force over all elements, and with the numbers of moved and kept
// elements in plans.
#include "planner/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "planner/graph/networks.h"
#include "planner/layout/strategies.h"
#include "planner/machine/presets.h"
#include "planner/schedule/elements.h"
#include "planner/schedule/step_program.h"
#include "tests/support/cases.h"
#include "tests/unit/planner/schedule/made_schedules.h"

namespace ucudnn::planner {
namespace {

// Returns the memory of a device in elements, as plans count it. Each layer and each copy counts
// with its elements on the device where it has most. Trained numbers count three times, because
// each has a momentum and a gradient.
int64_t PlannedMemory(const Schedule& schedule) {
  const auto most = [&](const auto& add) {
    std::vector<int64_t> elements(static_cast<size_t>(schedule.devices));
    add(elements);
    return *std::max_element(elements.begin(), elements.end());
  };
  int64_t memory = 0;
  for (size_t layer = 0; layer < schedule.nodes.size(); ++layer) {
    memory += most([&](std::vector<int64_t>& elements) {
      for (const ScheduledNode& node : schedule.nodes) {
        if (node.layer != static_cast<NodeId>(layer)) continue;
        for (const ScheduledParameter& parameter : node.parameters) {
          for (const ParameterPart& part : parameter.parts) {
            elements[static_cast<size_t>(part.device)] += 3 * Elements(parameter.shape, part);
          }
        }
      }
      const ScheduledNode& node = schedule.nodes[layer];
      if (node.IsInput() || node.layer != static_cast<NodeId>(layer)) return;
      for (const DeviceBox& one : node.boxes) {
        const auto scores =
            static_cast<int64_t>(static_cast<double>(Elements(one.box)) * node.inner);
        elements[static_cast<size_t>(one.device)] += Elements(one.box) + scores;
      }
      for (const DeviceBox& one : node.partial) {
        elements[static_cast<size_t>(one.device)] += Elements(one.box);
      }
    });
  }
  for (const ScheduledExchange& exchange : schedule.exchanges) {
    if (exchange.input == kPartialSums) continue;
    memory += most([&](std::vector<int64_t>& elements) {
      for (const Transfer& one : TransfersOf(schedule, exchange)) {
        elements[static_cast<size_t>(one.to)] += Elements(one.box);
      }
    });
  }
  return memory;
}

void ExpectTheFiguresOfThePlan(const Planned& planned, const std::string& what) {
  const LayoutCost cost = CostOf(planned.problem, planned.assignment);
  for (const UpdateModel update : {UpdateModel::kOwner, UpdateModel::kHierarchical}) {
    const Result<Schedule> schedule = planned.Scheduled({update});
    ASSERT_TRUE(schedule.ok()) << what << ": " << schedule.message();
    const ScheduleElements elements = ElementsOf(*schedule);
    EXPECT_EQ(elements.transfer * kElementBytes, cost.transfer_bytes) << what;
    EXPECT_EQ(elements.update * kElementBytes, cost.update_bytes) << what;
    EXPECT_EQ(PlannedMemory(*schedule) * kElementBytes, cost.memory_bytes) << what;
    MovedElements all;
    for (const DeviceElements& one : elements.devices) {
      for (const MovedElements& moved : {one.transfer, one.update, one.statistics}) {
        all.sent += moved.sent;
        all.received += moved.received;
      }
    }
    EXPECT_EQ(all.sent, elements.transfer + elements.update + elements.statistics) << what;
    EXPECT_EQ(all.received, all.sent) << what;
  }
}

// Freezes the parameters of the first `count` nodes.
void Freeze(Graph& graph, size_t count) {
  Planned planned = Pose(graph, 1, FlatMachine(1));
  planned.assignment.assign(planned.problem.graph.layers.size(), 0);
  const Schedule schedule = *planned.Scheduled();
  for (size_t id = 0; id < count; ++id) {
    for (const ScheduledParameter& parameter : schedule.nodes[id].parameters) {
      const int64_t elements = Elements(parameter.shape, parameter.parts.front());
      graph.nodes[id].parameters.push_back({elements, -1, false});
    }
  }
}

// Networks whose best layout a search finds within a second.
const std::set<std::string> kSearched = {"alexnet",  "vgg16",        "resnet18", "resnet18-v2",
                                         "resnet50", "inception-v3", "unet"};

TEST(Schedule, MovesAndKeepsWhatThePlanOfEveryBuiltInNetworkSays) {
  std::mt19937 random(7);
  int plans = 0, pairs = 0;
  // Unless UCUDNN_TEST_CASES=all, each network is planned for only one of the two machines.
  const int every = test::Cases(1, 2);
  for (const std::string& name : NetworkNames()) {
    const Graph graph = *BuildNetwork(name);
    if (graph.nodes.size() > 1000) continue;  // slow, and all layers of such networks are alike
    ++pairs;
    for (const char* machine : {"k20x8", "k80x16"}) {
      if (++pairs % every != 0) continue;
      Planned planned = Pose(graph, 32, *MachineByName(machine));
      const int devices = planned.machine.Devices();
      for (const Strategy strategy :
           {Strategy::kImage, Strategy::kModel, Strategy::kOwt, Strategy::kDeePa}) {
        if (strategy == Strategy::kDeePa && kSearched.count(name) == 0) continue;
        const auto layout = MakeLayout(planned.problem, devices, strategy);
        if (!layout.ok()) continue;
        planned.assignment = layout->assignment;
        ExpectTheFiguresOfThePlan(planned, name + " " + machine + " " + StrategyName(strategy));
        ++plans;
      }
      planned.assignment = RandomAssignment(planned.problem, random);
      ExpectTheFiguresOfThePlan(planned, name + " " + machine + " at random");
      ++plans;
    }
  }
  EXPECT_GE(plans, 140 / every);
}

TEST(Schedule, MovesWhatPlansWithReductionsAndPlacementsSay) {
  std::mt19937 random(11);
  const ConfigurationOptions options = {
      .uneven = true, .placements = true, .reduction = true, .pins = {}};
  for (const std::string name : {"alexnet", "resnet18-v2", "unet", "frozen"}) {
    Graph graph = *BuildNetwork(name == "frozen" ? "resnet18-v2" : name);
    if (name == "frozen") Freeze(graph, graph.nodes.size() / 2);
    Planned planned = Pose(graph, 16, *MachineByName("k20x8"), options);
    for (int trial = 0; trial < 4; ++trial) {
      planned.assignment = RandomAssignment(planned.problem, random);
      const LayoutCost cost = CostOf(planned.problem, planned.assignment);
      const Result<Schedule> schedule = planned.Scheduled();
      ASSERT_TRUE(schedule.ok()) << schedule.message();
      const ScheduleElements elements = ElementsOf(*schedule);
      EXPECT_EQ(elements.transfer * kElementBytes, cost.transfer_bytes) << name << " " << trial;
      EXPECT_EQ(elements.update * kElementBytes, cost.update_bytes) << name << " " << trial;
    }
  }
}

// The expected numbers are worked out by hand for 2 devices. For `second`, a device needs 8
// channels of 6 x 6 positions of all 4 images, and has half of the images. For `fc`, a device needs
// all channels of 2 images, and has half of the channels.
TEST(Schedule, CountsOnlyGradientsThatAreComputed) {
  struct Case {
    std::vector<std::string> frozen;
    int64_t transfer, update, statistics;
  };
  constexpr int64_t kFirst = 2 * (2 * 8 * 36), kSecond = 2 * (2 * 4 * 36);
  constexpr int64_t kConnected = 2 * (8 * 36 * 10 + 10), kFilters = 2 * (4 * 8 + 8);
  const Case cases[] = {
      {{}, 2 * kFirst + 2 * kSecond, kConnected + kFilters + 2 * 16, 2 * (16 + 16) + 2},
      {{"first"}, 2 * kFirst + 2 * kSecond, kConnected + 2 * 16, 2 * (16 + 16) + 2},
      {{"first", "norm"}, kFirst + 2 * kSecond, kConnected, 2 * 16 + 2},
      {{"first", "norm", "second"}, kFirst + kSecond, kConnected, 2 * 16 + 2},
      {{"norm"}, 2 * kFirst + 2 * kSecond, kConnected + kFilters, 2 * (16 + 16) + 2},
  };
  for (const Case& one : cases) {
    GraphBuilder net("frozen");
    const auto read = [&](const std::string& layer, std::vector<Parameter> parameters) {
      const bool is_frozen =
          std::find(one.frozen.begin(), one.frozen.end(), layer) != one.frozen.end();
      for (Parameter& parameter : parameters) parameter.trained = !is_frozen;
      return parameters;
    };
    const NodeId data = net.Add("data", Input{4, {1, 6, 6}}, {});
    const NodeId first = net.Add("first", Convolution{8}, {data}, read("first", {{32}, {8}}));
    const NodeId norm = net.Add("norm", BatchNormalization{}, {first}, read("norm", {{8}, {8}}));
    const NodeId second = net.Add("second", Convolution{8}, {norm}, read("second", {{64}, {8}}));
    net.Add("fc", FullyConnected{10}, {second});
    Planned planned = Pose(*net.Build(), 4, FlatMachine(2),
                           {.pins = {{"first", {2}}, {"second", {1, 2}}, {"fc", {2}}}});
    planned.assignment.assign(planned.problem.graph.layers.size(), 0);
    const Schedule schedule = *planned.Scheduled();
    const ScheduleElements elements = ElementsOf(schedule);
    const std::string what = std::to_string(one.frozen.size()) + " frozen";
    EXPECT_EQ(elements.transfer, one.transfer) << what;
    EXPECT_EQ(elements.update, one.update) << what;
    EXPECT_EQ(elements.statistics, one.statistics) << what;
    const LayoutCost cost = CostOf(planned.problem, planned.assignment);
    EXPECT_EQ(cost.transfer_bytes, one.transfer * kElementBytes) << what;
    EXPECT_EQ(cost.update_bytes, one.update * kElementBytes) << what;
    const std::vector<NodeTimes> times = TimesOf(schedule, planned.problem, planned.assignment);
    int64_t simulated = 0;
    for (const MessageBatch& batch : ProgramOf(schedule, times, StepOverlap::kFull).batches) {
      for (const Message& message : batch.messages) simulated += message.bytes;
    }
    EXPECT_EQ(simulated, (one.transfer + one.update + one.statistics) * kElementBytes) << what;
    const NodeTimes& of_second = times[static_cast<size_t>(second)];
    const int gradients =
        (NodeOf(schedule, norm).has_gradient ? 1 : 0) + (one.frozen.size() < 3 ? 1 : 0);
    EXPECT_DOUBLE_EQ(of_second.backward_ms, gradients * of_second.forward_ms) << what;
  }
}

using Values = std::map<std::pair<int, int64_t>, int>;  // times filled, by device and element

template <typename Visit>
void ForEach(const Box& box, const Shape& shape, const Visit& visit) {
  for (int64_t n = box[kAxisN].begin; n < box[kAxisN].end; ++n) {
    for (int64_t c = box[kAxisC].begin; c < box[kAxisC].end; ++c) {
      for (int64_t h = box[kAxisH].begin; h < box[kAxisH].end; ++h) {
        for (int64_t w = box[kAxisW].begin; w < box[kAxisW].end; ++w) {
          visit(((n * shape.c + c) * shape.extents[1] + h) * shape.extents[2] + w);
        }
      }
    }
  }
}

// Each element that a device needs but does not hold must arrive there exactly once, from the
// device that computed it.
TEST(Schedule, EveryElementArrivesOnceWhereItIsNeeded) {
  std::mt19937 random(5);
  const ConfigurationOptions options = {
      .uneven = true, .placements = true, .reduction = true, .pins = {}};
  Planned planned = Pose(ManyOperators(), 4, FlatMachine(6), options);
  int scheduled = 0;
  for (int trial = 0; trial < 40; ++trial) {
    planned.assignment = RandomAssignment(planned.problem, random);
    const Result<Schedule> schedule = planned.Scheduled();
    if (!schedule.ok()) continue;
    ++scheduled;
    std::map<std::pair<NodeId, int>, const ScheduledExchange*> by_input;
    for (const ScheduledExchange& exchange : schedule->exchanges) {
      by_input[{exchange.consumer, exchange.input}] = &exchange;
    }
    for (size_t id = 0; id < schedule->nodes.size(); ++id) {
      const ScheduledNode& node = schedule->nodes[id];
      for (size_t input = 0; input < node.needs.size(); ++input) {
        const ScheduledNode& read = NodeOf(*schedule, node.inputs[input]);
        if (read.IsInput()) continue;
        std::map<int64_t, std::set<int>> holders;
        for (const DeviceBox& one : read.boxes) {
          ForEach(one.box, read.shape, [&](int64_t at) { holders[at].insert(one.device); });
        }
        Values filled;
        const auto found = by_input.find({static_cast<NodeId>(id), static_cast<int>(input)});
        if (found != by_input.end()) {
          for (const Transfer& one : TransfersOf(*schedule, *found->second)) {
            ForEach(one.box, read.shape, [&](int64_t at) {
              ASSERT_EQ(holders[at], std::set<int>{one.from});
              ++filled[{one.to, at}];
            });
          }
        }
        for (const DeviceBox& one : node.needs[input]) {
          ForEach(one.box, read.shape, [&](int64_t at) {
            ASSERT_EQ(holders[at].size(), 1u);
            const int arrivals = holders[at].count(one.device) > 0 ? 0 : 1;
            ASSERT_EQ((filled[{one.device, at}]), arrivals) << node.name << " trial " << trial;
          });
        }
      }
    }
  }
  EXPECT_GE(scheduled, 20);
}

// For each element of a sum, the device that keeps the element must have exactly one addend of each
// device that computes a partial sum.
TEST(Schedule, PartialSumsMeetWhereTheyAreKept) {
  std::mt19937 random(17);
  Planned planned = Pose(ManyOperators(), 4, FlatMachine(8), {.reduction = true, .pins = {}});
  int reductions = 0;
  for (int trial = 0; trial < 40; ++trial) {
    planned.assignment = RandomAssignment(planned.problem, random);
    const Result<Schedule> schedule = planned.Scheduled();
    if (!schedule.ok()) continue;
    for (const ScheduledExchange& exchange : schedule->exchanges) {
      if (exchange.input != kPartialSums) continue;
      const ScheduledNode& node = NodeOf(*schedule, exchange.node);
      std::map<int64_t, int> kept;     // device that keeps an element
      std::map<int64_t, int> addends;  // number of addends of an element where it is kept
      for (const DeviceBox& one : node.boxes) {
        ForEach(one.box, node.shape, [&](int64_t at) { kept[at] = one.device; });
      }
      for (const DeviceBox& one : node.partial) {
        ForEach(one.box, node.shape, [&](int64_t at) { addends[at] += kept[at] == one.device; });
      }
      for (const Transfer& one : TransfersOf(*schedule, exchange)) {
        ForEach(one.box, node.shape, [&](int64_t at) {
          ASSERT_EQ(kept[at], one.to);
          ++addends[at];
        });
      }
      for (const auto& [at, count] : addends) {
        ASSERT_EQ(count, node.configuration.degrees.r) << node.name << " trial " << trial;
      }
      ++reductions;
    }
  }
  EXPECT_GE(reductions, 20);
}

// Everything that a step of the order reads must be computed, or must have arrived, before the
// step.
TEST(Schedule, TheOrderWaitsForWhatItReadsAndPostsWhatItHas) {
  std::mt19937 random(23);
  const ConfigurationOptions options = {
      .uneven = true, .placements = true, .reduction = true, .pins = {}};
  Planned planned = Pose(ManyOperators(), 8, FlatMachine(6), options);
  int scheduled = 0;
  for (int trial = 0; trial < 20; ++trial) {
    planned.assignment = RandomAssignment(planned.problem, random);
    const Result<Schedule> schedule = planned.Scheduled();
    if (!schedule.ok()) continue;
    ++scheduled;
    std::set<NodeId> computed;
    std::set<int> posted;
    std::set<int> arrived;
    std::set<int> merged;
    for (const ScheduledStep& step : schedule->order) {
      switch (step.kind) {
        case StepKind::kForward: {
          const ScheduledNode& node = NodeOf(*schedule, step.of);
          for (const NodeId input : node.inputs) {
            EXPECT_TRUE(computed.count(input) > 0 || NodeOf(*schedule, input).IsInput());
          }
          for (size_t id = 0; id < schedule->exchanges.size(); ++id) {
            const ScheduledExchange& exchange = schedule->exchanges[id];
            if (exchange.input == kPartialSums || exchange.consumer != step.of) continue;
            EXPECT_TRUE(arrived.count(static_cast<int>(id)) > 0) << node.name;
          }
          EXPECT_TRUE(computed.insert(step.of).second) << node.name;
          break;
        }
        case StepKind::kExchange:
          EXPECT_TRUE(computed.count(schedule->exchanges[static_cast<size_t>(step.of)].node) > 0);
          EXPECT_TRUE(posted.insert(step.of).second);
          break;
        case StepKind::kWait:
          EXPECT_TRUE(posted.count(step.of) > 0);
          EXPECT_TRUE(arrived.insert(step.of).second);
          break;
        case StepKind::kStatistics: {
          const Statistics& statistics = schedule->statistics[static_cast<size_t>(step.of)];
          const bool of_output = statistics.kind == StatisticsKind::kClassifier ||
                                 statistics.kind == StatisticsKind::kLoss;
          EXPECT_EQ(computed.count(statistics.node) > 0, of_output);
          EXPECT_TRUE(merged.insert(step.of).second);
          break;
        }
        case StepKind::kBackward:
          ADD_FAILURE() << "a pass where there are none";
          break;
      }
    }
    size_t layers = 0;
    for (const ScheduledNode& node : schedule->nodes) layers += node.IsInput() ? 0 : 1;
    EXPECT_EQ(computed.size(), layers);
    EXPECT_EQ(arrived.size(), schedule->exchanges.size());
    EXPECT_EQ(merged.size(), schedule->statistics.size());
  }
  EXPECT_GE(scheduled, 10);
}

// Two layers read the sum: one directly (`join`), the other after its normalization.
TEST(Schedule, ExchangesNameTheNodeThatIsRead) {
  Planned planned = Pose(ManyOperators(), 8, FlatMachine(4));
  for (const auto& configurations : planned.problem.configurations) {
    planned.assignment.push_back(static_cast<int>(configurations.size()) - 1);  // on one device
  }
  const auto choose = [&](const std::string& layer, const Degrees& degrees) {
    const auto at = static_cast<size_t>(planned.problem.graph.Find(layer));
    const auto& all = planned.problem.configurations[at];
    const auto found = std::find(all.begin(), all.end(), ParallelConfiguration{degrees, 0});
    planned.assignment[at] = static_cast<int>(found - all.begin());
  };
  choose("sum", {4});
  const Result<Schedule> schedule = planned.Scheduled();
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  std::set<std::string> edges;
  for (const ScheduledExchange& exchange : schedule->exchanges) {
    edges.insert(NodeOf(*schedule, exchange.node).name + " " +
                 NodeOf(*schedule, exchange.consumer).name + " " + std::to_string(exchange.input));
  }
  EXPECT_EQ(edges, (std::set<std::string>{"first sum 0", "grouped sum 1", "relu branch 0",
                                          "sum join 1", "relu both 1"}));
}

TEST(Schedule, InputsAreLoadedAsTheirReadersNeedThem) {
  Planned planned = Pose(*BuildNetwork("alexnet"), 8, FlatMachine(4));
  const auto layout = MakeLayout(planned.problem, 4, Strategy::kImage);
  ASSERT_TRUE(layout.ok()) << layout.message();
  planned.assignment = layout->assignment;
  const Result<Schedule> schedule = planned.Scheduled();
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  const ScheduledNode& data = schedule->nodes.front();
  ASSERT_EQ(data.boxes.size(), 4u);
  for (int device = 0; device < 4; ++device) {
    const DeviceBox& loaded = data.boxes[static_cast<size_t>(device)];
    EXPECT_EQ(loaded.device, device);
    EXPECT_EQ(loaded.box[kAxisN], (Interval{2 * device, 2 * device + 2}));
    EXPECT_EQ(loaded.box[kAxisH], (Interval{0, 224}));
  }
  EXPECT_TRUE(schedule->exchanges.empty());
}

TEST(Schedule, EveryLossHasItsImagesLabels) {
  std::mt19937 random(13);
  const ConfigurationOptions options = {
      .uneven = true, .placements = true, .reduction = true, .pins = {}};
  Planned planned = Pose(ManyOperators(), 7, FlatMachine(6), options);
  int travelled = 0;
  for (int trial = 0; trial < 20; ++trial) {
    planned.assignment = RandomAssignment(planned.problem, random);
    const Result<Schedule> schedule = planned.Scheduled();
    if (!schedule.ok()) continue;
    std::map<std::pair<int, int64_t>, int> labels;  // number of labels, by device and image
    std::map<int64_t, int> first;                   // the first device that loads an image
    for (const DeviceBox& one : schedule->nodes.front().boxes) {
      for (int64_t at = one.box[kAxisN].begin; at < one.box[kAxisN].end; ++at) {
        ++labels[{one.device, at}];
        first.try_emplace(at, one.device);
      }
    }
    for (const LabelMessage& one : schedule->labels) {
      for (int64_t at = one.images.begin; at < one.images.end; ++at) {
        ++labels[{one.to, at}];
        EXPECT_EQ(one.from, first.at(at));
        ++travelled;
      }
    }
    for (const DeviceBox& one : schedule->nodes.back().boxes) {
      for (int64_t at = one.box[kAxisN].begin; at < one.box[kAxisN].end; ++at) {
        EXPECT_EQ((labels[{one.device, at}]), 1) << "trial " << trial;
      }
    }
  }
  EXPECT_GT(travelled, 0);
}

TEST(Schedule, NumbersOfDividedNormalizationsAndClassesAreBroughtTogether) {
  Planned planned = Pose(ManyOperators(), 8, FlatMachine(4));
  for (size_t at = 0; at < planned.problem.configurations.size(); ++at) {
    const auto& all = planned.problem.configurations[at];
    const std::string& name = planned.problem.graph.layers[at].name;
    const Degrees wanted = name == "sum"   ? Degrees{2, 2}
                           : name == "fc7" ? Degrees{2, 2}
                                           : Degrees{};
    const auto found = std::find(all.begin(), all.end(), ParallelConfiguration{wanted, 0});
    planned.assignment.push_back(static_cast<int>(found - all.begin()));
  }
  const Result<Schedule> schedule = planned.Scheduled();
  ASSERT_TRUE(schedule.ok()) << schedule.message();
  ASSERT_EQ(schedule->statistics.size(), 3u);
  const Statistics& norm = schedule->statistics[0];
  EXPECT_EQ(NodeOf(*schedule, norm.node).name, "norm");
  EXPECT_EQ(norm.kind, StatisticsKind::kBatchNormalization);
  ASSERT_EQ(norm.groups.size(), 2u);  // each has the means and deviations of four channels
  EXPECT_EQ(norm.groups[0].devices, (std::vector<int>{0, 2}));
  EXPECT_EQ(norm.groups[1].devices, (std::vector<int>{1, 3}));
  EXPECT_EQ(norm.groups[0].forward, 8);
  EXPECT_EQ(norm.groups[0].backward, 8);
  const Statistics& classes = schedule->statistics[1];
  EXPECT_EQ(classes.kind, StatisticsKind::kClassifier);
  ASSERT_EQ(classes.groups.size(), 2u);  // four images in each
  EXPECT_EQ(classes.groups[1].devices, (std::vector<int>{2, 3}));
  EXPECT_EQ(classes.groups[1].forward, 12);
  EXPECT_EQ(classes.groups[1].backward, 0);
  const Statistics& loss = schedule->statistics[2];
  EXPECT_EQ(loss.kind, StatisticsKind::kLoss);
  EXPECT_EQ(loss.groups[0].devices, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(ElementsOf(*schedule).statistics, 2 * 2 * (8 + 8) + 2 * 2 * 12 + 2 * 3);
}

// Returns the schedule of a network in which `norm` normalizes 12 channels of 6 x 6 positions and
// has the degrees `degrees`.
Schedule WithNorm(const GroupNormalization& norm, const Degrees& degrees) {
  GraphBuilder net("norms");
  const NodeId first =
      net.Add("first", Convolution{12}, {net.Add("data", Input{4, {1, 6, 6}}, {})});
  net.Add("pool", GlobalPooling{}, {net.Add("norm", norm, {first})});
  Planned planned = Pose(*net.Build(), 8, FlatMachine(6), {.pins = {{"norm", degrees}}});
  planned.assignment.assign(planned.problem.graph.layers.size(), 0);
  return *planned.Scheduled();
}

TEST(Schedule, NumbersOfGroupsAreBroughtTogetherByDevicesThatShareThem) {
  struct Case {
    GroupNormalization norm;
    Degrees degrees;
    std::vector<std::vector<int>> devices;
    int64_t numbers;
  };
  const GroupNormalization three{3};  // three groups of four channels
  const Case cases[] = {
      {three, {2, 1, 3}, {{0, 1, 2}, {3, 4, 5}}, 2 * 4 * 3},  // n, c, h, w
      {three, {1, 3, 1, 2}, {{0, 1}, {2, 3}, {4, 5}}, 2 * 8},
      {three, {2, 3}, {}, 0},
      {three, {1, 6}, {{0, 1}, {2, 3}, {4, 5}}, 2 * 8},  // each device has two channels of a group
      {three, {1, 2, 1, 3}, {{0, 1, 2, 3, 4, 5}}, 2 * 8 * 3},  // all devices have the second group
      {{1, true}, {1, 2, 3}, {{0, 3}, {1, 4}, {2, 5}}, 2 * 8 * 2 * 6},
      {{1, true}, {1, 1, 3, 2}, {}, 0},
  };
  for (const Case& one : cases) {
    const Schedule schedule = WithNorm(one.norm, one.degrees);
    const std::vector<Statistics>& found = schedule.statistics;
    const bool has = found.front().kind == StatisticsKind::kGroupNormalization;
    ASSERT_EQ(has, !one.devices.empty()) << Describe(one.degrees);
    std::vector<std::vector<int>> devices;
    for (const StatisticsGroup& group :
         has ? found.front().groups : decltype(found.front().groups){}) {
      devices.push_back(group.devices);
      EXPECT_EQ(group.forward, one.numbers) << Describe(one.degrees);
      EXPECT_EQ(group.backward, one.numbers) << Describe(one.degrees);
    }
    EXPECT_EQ(devices, one.devices) << Describe(one.degrees);
    for (const ScheduledParameter& parameter : NodeOf(schedule, 2).parameters) {
      EXPECT_EQ(parameter.parts.front().ranges.front().Length(), 12 / one.degrees.c);
    }
  }
}

TEST(Schedule, ALossSaysWhichNumbersOfDividedClassesAreNeeded) {
  const auto kinds = [](const Operator& loss) {
    GraphBuilder net("losses");
    const NodeId data = net.Add("data", Input{8, {1, 6, 6}}, {});
    const NodeId pooled =
        net.Add("pooled", GlobalPooling{}, {net.Add("conv", Convolution{8}, {data})});
    net.Add("loss", loss, {net.Add("flat", Flatten{}, {pooled})});
    Planned planned = Pose(*net.Build(), 8, FlatMachine(4), {.pins = {{"flat", {2, 2}}}});
    planned.assignment.assign(planned.problem.graph.layers.size(), 0);
    const Schedule schedule = *planned.Scheduled();
    EXPECT_EQ(NodeOf(schedule, NodeOf(schedule, 4).layer).name, "flat");
    std::vector<StatisticsKind> found;
    for (const Statistics& one : schedule.statistics) {
      EXPECT_EQ(NodeOf(schedule, one.node).name, "loss");
      found.push_back(one.kind);
    }
    return found;
  };
  EXPECT_EQ(kinds(CrossEntropy{}),
            (std::vector{StatisticsKind::kClassifier, StatisticsKind::kLoss}));
  EXPECT_EQ(kinds(LogisticLoss{}), (std::vector{StatisticsKind::kLoss}));
}

TEST(Schedule, ConfigurationsWithoutARuleAreRefusedByName) {
  GraphBuilder net("opaque");
  const NodeId data = net.Add("data", Input{4, {1, 8, 8}}, {});
  Opaque op{"Sort", 4, {1, 8, 8}};
  op.rows = true;
  op.channel_parts = 4;
  const NodeId sort = net.Add("sort", op, {net.Add("first", Convolution{4}, {data})});
  net.Add("last", Convolution{4}, {sort});
  const auto pinned = [&](const char* layer, const Degrees& degrees, const Graph& graph) {
    Planned planned = Pose(graph, 8, FlatMachine(4), {.pins = {{layer, degrees}}});
    planned.assignment.assign(planned.problem.graph.layers.size(), 0);
    return planned.Scheduled();
  };
  EXPECT_TRUE(pinned("sort", {4}, *net.Build()).ok());
  EXPECT_TRUE(pinned("sort", {1, 1, 4}, *net.Build()).ok());
  EXPECT_EQ(
      pinned("sort", {1, 4}, *net.Build()).message(),
      "layer 'sort' with {n=1, c=4, h=1, w=1}: what a 'Sort' computes of some channels is not "
      "known; expected c of 1");
  GraphBuilder other("grouped");
  TransposedConvolution up{12, {1, 2, 2}, {1, 2, 2}};
  up.groups = 3;  // two halves of the 12 channels would cut the second group of four
  other.Add("up", up, {other.Add("data", Input{3, {1, 8, 8}}, {})});
  EXPECT_EQ(pinned("up", {1, 2}, *other.Build()).message(),
            "layer 'up' with {n=1, c=2, h=1, w=1}: output channels 0 to 6 cut its groups; expected "
            "parts of whole groups, or in one group");
}

TEST(Schedule, WhatNeedsAWholeImageIsNotDivided) {
  GraphBuilder net("inner");
  const NodeId data = net.Add("data", Input{4, {1, 8, 8}}, {});
  const NodeId scores = net.Add("scores", Convolution{4}, {data});
  net.Add("last", Convolution{4}, {net.Add("weights", Softmax{}, {scores})});
  const Graph graph = *net.Build();
  const auto pinned = [&](const char* layer, const Degrees& degrees) {
    Planned planned =
        Pose(graph, 8, FlatMachine(4), {.reduction = true, .pins = {{layer, degrees}}});
    planned.assignment.assign(planned.problem.graph.layers.size(), 0);
    return planned.Scheduled();
  };
  EXPECT_TRUE(pinned("scores", {1, 1, 2, 2}).ok());
  EXPECT_TRUE(pinned("last", {1, 4}).ok());
  for (const Degrees& degrees : {Degrees{2, 2}, Degrees{1, 1, 1, 1, 4}}) {
    EXPECT_EQ(pinned("scores", degrees).message(),
              "layer 'scores' with " + Describe(degrees) +
                  ": a layer reads its softmax 'weights', which needs all channels; expected c and "
                  "r of 1");
  }
  for (const Degrees& degrees : {Degrees{2, 1, 2}, Degrees{1, 1, 1, 4}}) {
    EXPECT_EQ(pinned("last", degrees).message(),
              "layer 'last' with " + Describe(degrees) +
                  ": the loss of output 'last' needs all positions of an image; expected h and w "
                  "of 1");
  }
  // A search must not choose the configurations that are refused above.
  const Planned planned = Pose(graph, 8, FlatMachine(4));
  const auto layout = MakeLayout(planned.problem, 4, Strategy::kModel);
  ASSERT_TRUE(layout.ok()) << layout.message();
  EXPECT_EQ(ConfigurationOf(planned.problem, layout->assignment, 0).degrees, Degrees{});
  EXPECT_EQ(ConfigurationOf(planned.problem, layout->assignment, 1).degrees, (Degrees{1, 4}));
}

TEST(Schedule, ReadersOfOneTensorNeedItOnTheSameDevices) {
  GraphBuilder net("shared");
  const NodeId data = net.Add("data", Input{4, {1, 8, 8}}, {});
  const std::vector<Parameter> shared = {{16, 7}, {4, 8}};
  const NodeId first = net.Add("first", Convolution{4}, {data}, shared);
  net.Add("second", Convolution{4}, {first}, shared);
  Planned planned = Pose(*net.Build(), 8, FlatMachine(4), {.pins = {{"first", {4}}}});
  const auto& all = planned.problem.configurations[1];
  for (const Degrees& second : {Degrees{4}, Degrees{2}}) {
    const auto found = std::find(all.begin(), all.end(), ParallelConfiguration{second, 0});
    planned.assignment = {0, static_cast<int>(found - all.begin())};
    const Result<Schedule> schedule = planned.Scheduled();
    if (second.n == 2) {
      EXPECT_EQ(schedule.message(),
                "layers 'first' and 'second' share parameters; expected pins that put them on the "
                "same devices in the same parts");
      continue;
    }
    ASSERT_TRUE(schedule.ok()) << schedule.message();
    ASSERT_EQ(schedule->sums.size(), 1u);  // a common sum, after the gradient of "first"
    EXPECT_EQ(schedule->sums[0].elements, 20);
    EXPECT_EQ(NodeOf(*schedule, schedule->sums[0].parameters[0].node).name, "first");
  }
}

}  // namespace
}  // namespace ucudnn::planner
