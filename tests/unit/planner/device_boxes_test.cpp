// Tests the boxes of elements that devices compute, and the boxes that they receive. Both are
// compared with brute force over every element, and with the modelled cost of transfers.
#include "planner/layout/device_boxes.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "planner/cost/deepa_paper.h"
#include "planner/cost/update.h"
#include "planner/graph/networks.h"
#include "planner/layout/strategies.h"
#include "planner/report/layout_json.h"

namespace ucudnn::planner {
namespace {

PlanningProblem Problem(const std::string& network, int batch, int devices,
                        const PlanningOptions& options = {}) {
  return *BuildPlanningProblem(*BuildLayerGraph(*BuildNetwork(network), batch), devices,
                               DeePaPaperModel(), options);
}

Assignment RandomAssignment(const PlanningProblem& problem, std::mt19937& random) {
  Assignment assignment;
  for (const auto& configurations : problem.configurations) {
    assignment.push_back(static_cast<int>(random() % configurations.size()));
  }
  return assignment;
}

int64_t Volume(const std::vector<Transfer>& transfers) {
  int64_t elements = 0;
  for (const Transfer& one : transfers) elements += Elements(one.box);
  return elements;
}

TEST(DeviceBoxes, TransfersAddUpToWhatLayoutsAreSaidToMove) {
  std::mt19937 random(3);
  PlanningOptions options;
  options.configurations.placements = true;
  options.configurations.reduction = true;
  for (const std::string name : {"alexnet", "resnet18", "inception-v3"}) {
    const PlanningProblem problem = Problem(name, 32, 8, options);
    for (int trial = 0; trial < 5; ++trial) {
      const Assignment assignment = RandomAssignment(problem, random);
      const std::vector<int64_t> bytes = TransferBytes(problem, assignment);
      int64_t sum = 0;
      for (size_t at = 0; at < bytes.size(); ++at) {
        const SearchProblem::Edge& edge = problem.search.edges[at];
        const auto transfers =
            Transfers(problem.graph.layers[static_cast<size_t>(edge.to)], problem.inputs[at],
                      ConfigurationOf(problem, assignment, edge.from),
                      ConfigurationOf(problem, assignment, edge.to));
        EXPECT_EQ(2 * kElementBytes * Volume(transfers), bytes[at]) << name << " edge " << at;
        sum += bytes[at];
      }
      const std::vector<int64_t> reductions = ReductionBytes(problem, assignment);
      for (size_t at = 0; at < reductions.size(); ++at) {
        const auto& configuration = ConfigurationOf(problem, assignment, static_cast<int>(at));
        const auto transfers = ReductionTransfers(problem.graph.layers[at], configuration);
        EXPECT_EQ(2 * kElementBytes * Volume(transfers), reductions[at]) << name << " layer " << at;
        EXPECT_EQ(reductions[at] > 0, configuration.degrees.r > 1) << name << " layer " << at;
        sum += reductions[at];
      }
      EXPECT_EQ(sum, CostOf(problem, assignment).transfer_bytes) << name;
    }
  }
}

bool Holds(const Box& box, const std::array<int64_t, kTensorAxes>& element) {
  for (size_t axis = 0; axis < kTensorAxes; ++axis) {
    if (element[axis] < box[axis].begin || element[axis] >= box[axis].end) return false;
  }
  return true;
}

// Expects that each element of a small tensor is computed on one device. If another device needs
// the element, it must arrive there exactly once, from the device that computed it.
TEST(DeviceBoxes, EveryElementArrivesOnceWhereItIsNeeded) {
  std::mt19937 random(5);
  GraphBuilder builder("small");
  const NodeId data = builder.Add("data", Input{4, {1, 12, 12}}, {});
  const NodeId first =
      builder.Add("first", Convolution{8, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}}, {data});
  const NodeId second =
      builder.Add("second", Convolution{8, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}}, {first});
  builder.Add("join", Concat{}, {second, second});
  const Result<Graph> graph = builder.Build();
  ASSERT_TRUE(graph.ok()) << graph.message();
  PlanningOptions options;
  options.configurations = {.uneven = true, .placements = true, .reduction = true, .pins = {}};
  const PlanningProblem problem =
      *BuildPlanningProblem(*BuildLayerGraph(*graph, 4), 8, DeePaPaperModel(), options);
  for (int trial = 0; trial < 200; ++trial) {
    const Assignment assignment = RandomAssignment(problem, random);
    for (size_t at = 0; at < problem.search.edges.size(); ++at) {
      const SearchProblem::Edge& edge = problem.search.edges[at];
      const PlannedLayer& consumer = problem.graph.layers[static_cast<size_t>(edge.to)];
      const PlannedLayer& producer = problem.graph.layers[static_cast<size_t>(edge.from)];
      const auto& from = ConfigurationOf(problem, assignment, edge.from);
      const auto& to = ConfigurationOf(problem, assignment, edge.to);
      const auto held = OutputBoxes(producer, from);
      const auto needed = NeededBoxes(consumer, problem.inputs[at], to);
      const auto transfers = Transfers(consumer, problem.inputs[at], from, to);
      const Shape& tensor = producer.output;
      for (int64_t n = 0; n < tensor.n; ++n) {
        for (int64_t c = 0; c < tensor.c; ++c) {
          for (int64_t h = 0; h < tensor.extents[1]; ++h) {
            const std::array<int64_t, kTensorAxes> element = {n, c, 0, h,
                                                              (h * 5 + c) % tensor.extents[2]};
            std::vector<int> owners;
            for (const DeviceBox& one : held) {
              if (Holds(one.box, element)) owners.push_back(one.device);
            }
            ASSERT_EQ(owners.size(), 1u);
            for (const NeededBox& one : needed) {
              if (!Holds(one.box, element)) continue;
              int arrivals = 0;
              for (const Transfer& transfer : transfers) {
                if (transfer.to != one.device || !Holds(transfer.box, element)) continue;
                EXPECT_EQ(transfer.from, owners.front());
                ++arrivals;
              }
              ASSERT_EQ(arrivals, one.device == owners.front() ? 0 : 1) << "trial " << trial;
            }
          }
        }
      }
    }
  }
}

TEST(DeviceBoxes, HalosAreWhatWindowsReachBeyondTheOwnPart) {
  const PlanningProblem problem = Problem("vgg16", 8, 4);
  const PlannedLayer& layer =
      problem.graph.layers[static_cast<size_t>(problem.graph.Find("conv5_2"))];
  // conv5_2 has 14 x 14 positions, 3 x 3 windows and a pad of 1.
  const auto needed = NeededBoxes(layer, 0, {{1, 1, 2, 2}, 0});
  ASSERT_EQ(needed.size(), 4u);
  EXPECT_EQ(needed[0].h, (Halo{0, 1}));
  EXPECT_EQ(needed[0].w, (Halo{0, 1}));
  EXPECT_EQ(needed[1].h, (Halo{0, 1}));
  EXPECT_EQ(needed[1].w, (Halo{1, 0}));
  EXPECT_EQ(needed[2].h, (Halo{1, 0}));
  EXPECT_EQ(needed[3].w, (Halo{1, 0}));
  for (const NeededBox& whole : NeededBoxes(layer, 0, {{4}, 0})) {
    EXPECT_EQ(whole.h, Halo{});
    EXPECT_EQ(whole.w, Halo{});
  }
}

TEST(DeviceBoxes, ReplicasShareTheParametersOfTheirChannels) {
  const PlanningProblem problem = Problem("alexnet", 16, 8);
  const PlannedLayer& fc6 = problem.graph.layers[static_cast<size_t>(problem.graph.Find("fc6"))];
  const auto groups = ReplicaGroups(fc6, {{4, 2}, 0});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].devices, (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(groups[1].devices, (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(groups[1].channels, (Interval{2048, 4096}));
  EXPECT_TRUE(ReplicaGroups(fc6, {{1, 8}, 0}).empty());
  const PlannedLayer& pool = problem.graph.layers[static_cast<size_t>(problem.graph.Find("pool1"))];
  EXPECT_TRUE(ReplicaGroups(pool, {{8}, 0}).empty());
}

TEST(MemoryLimits, DeePaKeepsToThem) {
  const PlanningProblem problem = Problem("alexnet", 512, 16);
  const auto free = MakeLayout(problem, 16, Strategy::kDeePa);
  ASSERT_TRUE(free.ok());
  const int64_t limit = free->cost.memory_bytes * 3 / 4;
  const auto limited = MakeLayout(problem, 16, Strategy::kDeePa, {}, limit);
  ASSERT_TRUE(limited.ok()) << limited.message();
  EXPECT_LE(limited->cost.memory_bytes, limit);
  EXPECT_GT(limited->cost.total_ms, free->cost.total_ms);
  EXPECT_LE(limited->lower_bound_ms, limited->cost.total_ms * (1 + 1e-9));
  EXPECT_NEAR(MakeLayout(problem, 16, Strategy::kDeePa, {}, free->cost.memory_bytes)->cost.total_ms,
              free->cost.total_ms, 1e-9 * free->cost.total_ms);
  const auto none = MakeLayout(problem, 16, Strategy::kDeePa, {}, 1 << 20);
  EXPECT_EQ(none.message().rfind("no plan fits 1 MiB on a device; the smallest found needs ", 0),
            0u)
      << none.message();
}

}  // namespace
}  // namespace ucudnn::planner
