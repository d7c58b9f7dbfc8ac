// Tests which part of each parameter a device has: exactly the weights with which it multiplies,
// compared one by one, and the biases and scales of the channels that it keeps. Also tests the sums
// of gradients: which parameters and devices they cover, and the messages that compute them.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "planner/schedule/gradient_sums.h"
#include "tests/unit/planner/schedule/made_schedules.h"

namespace ucudnn::planner {
namespace {

using Index = std::pair<int64_t, int64_t>;  // a weight's indices along the first two axes

const DeviceBox* BoxOn(const std::vector<DeviceBox>& boxes, int device) {
  for (const DeviceBox& one : boxes) {
    if (one.device == device) return &one;
  }
  return nullptr;
}

// Returns the weights with which `node` multiplies on a device. They follow from the boxes that the
// device computes and needs.
std::set<Index> Multiplied(const Operator& op, const ScheduledNode& node, const Shape& input,
                           int device) {
  const std::vector<DeviceBox>& computed = node.partial.empty() ? node.boxes : node.partial;
  const DeviceBox* const out = BoxOn(computed, device);
  std::set<Index> weights;
  if (out == nullptr) return weights;
  const Interval in = BoxOn(node.needs[0], device)->box[kAxisC];
  const int64_t positions = input.Features() / input.c;
  for (int64_t k = out->box[kAxisC].begin; k < out->box[kAxisC].end; ++k) {
    for (int64_t c = in.begin; c < in.end; ++c) {
      if (const auto* convolution = std::get_if<Convolution>(&op)) {
        const int64_t filters = convolution->filters / convolution->groups;
        const int64_t channels = input.c / convolution->groups;
        if (k / filters == c / channels) weights.insert({k, c % channels});
      } else if (const auto* transposed = std::get_if<TransposedConvolution>(&op)) {
        const int64_t filters = transposed->filters / transposed->groups;
        const int64_t channels = input.c / transposed->groups;
        if (k / filters == c / channels) weights.insert({c, k % filters});
      } else {
        for (int64_t at = 0; at < positions; ++at) weights.insert({k, c * positions + at});
      }
    }
  }
  return weights;
}

TEST(Parameters, ADeviceHasTheWeightsThatItMultiplies) {
  std::mt19937 random(3);
  const ConfigurationOptions options = {
      .uneven = true, .placements = true, .reduction = true, .pins = {}};
  const Graph graph = ManyOperators();
  Planned planned = Pose(graph, 4, FlatMachine(6), options);
  int layers = 0;
  for (int trial = 0; trial < 60; ++trial) {
    planned.assignment = RandomAssignment(planned.problem, random);
    const Result<Schedule> schedule = planned.Scheduled();
    if (!schedule.ok()) continue;
    for (size_t id = 0; id < graph.nodes.size(); ++id) {
      const ScheduledNode& node = schedule->nodes[id];
      if (node.parameters.empty()) continue;
      for (const ScheduledParameter& parameter : node.parameters) {
        for (int device = 0; device < 6; ++device) {
          const ParameterPart* own = nullptr;
          for (const ParameterPart& part : parameter.parts) {
            if (part.device == device) own = &part;
          }
          // A device has the biases and scales of the channels that it keeps.
          if (parameter.shape.size() == 1) {
            const DeviceBox* const kept = BoxOn(node.boxes, device);
            ASSERT_EQ(own != nullptr, kept != nullptr) << node.name;
            if (own != nullptr) {
              EXPECT_EQ(own->ranges[0], kept->box[kAxisC]) << node.name;
            }
            continue;
          }
          std::set<Index> has;
          for (int64_t a = own ? own->ranges[0].begin : 0; own && a < own->ranges[0].end; ++a) {
            for (int64_t b = own->ranges[1].begin; b < own->ranges[1].end; ++b) has.insert({a, b});
          }
          const Shape& input = NodeOf(*schedule, node.inputs[0]).shape;
          ASSERT_EQ(has, Multiplied(graph.nodes[id].op, node, input, device))
              << node.name << " trial " << trial << " device " << device;
        }
        ++layers;
      }
    }
  }
  EXPECT_GE(layers, 200);
}

// A schedule's sums must cover each trained number that several devices have, on exactly these
// devices, and no other numbers.
TEST(GradientSums, AddUpOverExactlyTheDevicesThatShare) {
  std::mt19937 random(29);
  const ConfigurationOptions options = {
      .uneven = true, .placements = true, .reduction = true, .pins = {}};
  Planned planned = Pose(ManyOperators(), 4, FlatMachine(6), options);
  int shared = 0;
  for (int trial = 0; trial < 30; ++trial) {
    planned.assignment = RandomAssignment(planned.problem, random);
    const Result<Schedule> schedule = planned.Scheduled();
    if (!schedule.ok()) continue;
    std::map<std::tuple<NodeId, int, int>, std::vector<int>> summed;  // by node, parameter, device
    for (const GradientSum& sum : schedule->sums) {
      int64_t elements = 0;
      for (const auto& [node, at] : sum.parameters) {
        const ScheduledParameter& parameter =
            NodeOf(*schedule, node).parameters[static_cast<size_t>(at)];
        for (const ParameterPart& part : parameter.parts) {
          if (part.device == sum.devices.front()) elements += Elements(parameter.shape, part);
        }
        for (const int device : sum.devices) {
          EXPECT_TRUE(summed.try_emplace({node, at, device}, sum.devices).second);
        }
      }
      EXPECT_EQ(sum.elements, elements);
      EXPECT_LE(sum.elements, kMostBundled);
    }
    for (size_t id = 0; id < schedule->nodes.size(); ++id) {
      const auto& parameters = schedule->nodes[id].parameters;
      for (size_t at = 0; at < parameters.size(); ++at) {
        for (const ParameterPart& part : parameters[at].parts) {
          std::vector<int> sharing;
          for (const ParameterPart& other : parameters[at].parts) {
            if (other.ranges == part.ranges) sharing.push_back(other.device);
          }
          const auto found =
              summed.find({static_cast<NodeId>(id), static_cast<int>(at), part.device});
          ASSERT_EQ(found != summed.end(), sharing.size() > 1);
          if (found != summed.end()) {
            EXPECT_EQ(found->second, sharing);
            ++shared;
          }
        }
      }
    }
  }
  EXPECT_GE(shared, 100);
}

// Follows the messages of a sum for each element. At the end, each device must have exactly one
// addend of every device.
void ExpectAllHaveAll(const Schedule& schedule, const GradientSum& sum, const std::string& what) {
  const auto phases = PhasesOf(schedule, sum);
  const auto elements = static_cast<size_t>(sum.elements);
  std::map<int, std::vector<std::multiset<int>>> has;
  for (const int device : sum.devices) {
    has[device].assign(elements, std::multiset<int>{device});
  }
  for (size_t phase = 0; phase < phases.size(); ++phase) {
    const auto before = has;
    for (const auto& [from, to, interval] : phases[phase]) {
      for (int64_t at = interval.begin; at < interval.end; ++at) {
        const auto& sent = before.at(from)[static_cast<size_t>(at)];
        auto& own = has.at(to)[static_cast<size_t>(at)];
        if (phase < phases.size() / 2) {
          own.insert(sent.begin(), sent.end());
        } else {
          own = sent;
        }
      }
    }
  }
  const std::multiset<int> all(sum.devices.begin(), sum.devices.end());
  for (const int device : sum.devices) {
    for (size_t at = 0; at < elements; ++at) ASSERT_EQ(has[device][at], all) << what << " " << at;
  }
}

TEST(GradientSums, EveryDeviceGetsTheSumOfAllOnceFromEach) {
  std::mt19937 random(31);
  Schedule schedule;
  schedule.levels = {2, 3, 2};
  schedule.devices = 12;
  for (int trial = 0; trial < 60; ++trial) {
    GradientSum sum;
    for (int device = 0; device < 12; ++device) {
      if (random() % 2 == 0) sum.devices.push_back(device);
    }
    if (sum.devices.size() < 2) continue;
    sum.elements = 1 + static_cast<int64_t>(random() % 40);
    for (const UpdateModel update : {UpdateModel::kOwner, UpdateModel::kHierarchical}) {
      schedule.update = update;
      ExpectAllHaveAll(schedule, sum, "trial " + std::to_string(trial) + " " + UpdateName(update));
      int64_t moved = 0;
      for (const auto& phase : PhasesOf(schedule, sum)) {
        for (const SumMessage& message : phase) moved += message.elements.Length();
      }
      EXPECT_EQ(moved, 2 * static_cast<int64_t>(sum.devices.size() - 1) * sum.elements);
    }
  }
}

// Sums W elements over four nodes of four devices. With one owner for each element, 2 * 12 W
// elements move between nodes, because 12 of 16 devices are on other nodes than the owner. Level by
// level, 2 * 3 W elements move between nodes.
TEST(GradientSums, LevelByLevelLeastCrossesNodes) {
  Schedule schedule;
  schedule.levels = {4, 4};
  schedule.devices = 16;
  GradientSum sum;
  for (int device = 0; device < 16; ++device) sum.devices.push_back(device);
  sum.elements = 1600;
  for (const auto& [update, expected] :
       {std::pair(UpdateModel::kOwner, 24), std::pair(UpdateModel::kHierarchical, 6)}) {
    schedule.update = update;
    int64_t crossing = 0;
    for (const auto& phase : PhasesOf(schedule, sum)) {
      for (const SumMessage& message : phase) {
        if (message.from / 4 != message.to / 4) crossing += message.elements.Length();
      }
    }
    EXPECT_EQ(crossing, expected * sum.elements);
  }
}

TEST(GradientSums, AreBundledPerDevicesAndTakenAsTheBackwardPassMakesThemReady) {
  GraphBuilder net("bundles");
  NodeId last = net.Add("data", Input{512, {1, 1, 1}}, {});
  const auto append = [&](const std::string& name, int outputs) {
    last = net.Add(name, FullyConnected{outputs, false}, {last});
  };
  for (const char* name : {"a", "b", "c", "d", "e"}) append(name, 512);  // 1 MiB each
  append("wide", 16384);                                                 // 32 MiB
  append("narrow", 512);                                                 // 32 MiB
  Planned planned = Pose(*net.Build(), 8, FlatMachine(4));
  const auto sums = [&](const std::string& halved) {
    planned.assignment.clear();
    for (size_t at = 0; at < planned.problem.configurations.size(); ++at) {
      const auto& all = planned.problem.configurations[at];
      const bool by_two = halved.find(planned.problem.graph.layers[at].name) != std::string::npos;
      const auto found =
          std::find(all.begin(), all.end(), ParallelConfiguration{{by_two ? 2 : 4}, 0});
      planned.assignment.push_back(static_cast<int>(found - all.begin()));
    }
    const Result<Schedule> schedule = planned.Scheduled();
    std::vector<std::string> text;
    for (const GradientSum& sum : schedule->sums) {
      text.push_back(std::to_string(sum.devices.size()) + ":");
      for (const auto& member : sum.parameters) {
        text.back() += " " + NodeOf(*schedule, member.node).name;
      }
    }
    return text;
  };
  // Four devices sum 5 + 32 + 32 = 69 MiB. A bundle of layers has at most a quarter of this.
  EXPECT_EQ(sums(""), (std::vector<std::string>{"4: narrow", "4: wide", "4: e d c b a"}));
  // Pairs of devices sum 5 MiB. Two layers of 1 MiB would exceed a quarter of this, so there are no
  // bundles.
  EXPECT_EQ(sums("a b c d e"), (std::vector<std::string>{"4: narrow", "4: wide", "2: e", "2: d",
                                                         "2: c", "2: b", "2: a"}));
  // A bundle is sent when the last of its layers is ready, after layers that are ready earlier.
  EXPECT_EQ(sums("b d"),
            (std::vector<std::string>{"4: narrow", "4: wide", "2: d", "2: b", "4: e c a"}));
}

}  // namespace
}  // namespace ucudnn::planner
