// Compares layers that are divided along their input channels with counts element by element, with
// closed forms, and with the enumeration of every plan.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/cost/deepa_paper.h"
#include "planner/cost/transfer.h"
#include "planner/graph/networks.h"
#include "planner/layout/device_boxes.h"
#include "planner/layout/strategies.h"
#include "tests/unit/planner/enumerate.h"
#include "tests/unit/planner/layers_of.h"
#include "tests/unit/planner/made_machine.h"
#include "tests/unit/planner/one_by_one.h"
#include "tests/unit/planner/random_layers.h"

namespace ucudnn::planner {
namespace {

const LayerGraph& AlexNet() {
  static const LayerGraph graph = *BuildLayerGraph(*BuildNetwork("alexnet"), 512);
  return graph;
}

Degrees Reduced(int r) { return {.r = r}; }

ConfigurationOptions WithReduction() {
  ConfigurationOptions options;
  options.reduction = true;
  return options;
}

TEST(Reduction, IsAChoiceByOptionAndByPin) {
  const auto reduced = [](const std::vector<ParallelConfiguration>& configurations) {
    return std::count_if(configurations.begin(), configurations.end(),
                         [](const auto& one) { return one.degrees.r > 1; });
  };
  const PlannedLayer& fc6 = LayerOf(AlexNet(), "fc6");
  EXPECT_EQ(reduced(LegalConfigurations(fc6, 16, {})), 0);
  // The degrees are powers of two with a product of at most 16. There are 35 such tuples (n, c, r),
  // of which 15 have no reduction (r = 1).
  EXPECT_EQ(LegalConfigurations(fc6, 16, WithReduction()).size(), 35u);
  EXPECT_EQ(reduced(LegalConfigurations(fc6, 16, WithReduction())), 35 - 15);
  EXPECT_EQ(reduced(LegalConfigurations(LayerOf(AlexNet(), "conv1"), 16, WithReduction())), 0);
  EXPECT_EQ(reduced(LegalConfigurations(LayerOf(AlexNet(), "conv1"), 6, WithReduction())), 3);
  EXPECT_EQ(reduced(LegalConfigurations(LayerOf(AlexNet(), "pool5"), 16, WithReduction())), 0);
  const LayerGraph caffe = *BuildLayerGraph(*BuildNetwork("alexnet-caffe"), 512);
  EXPECT_EQ(reduced(LegalConfigurations(LayerOf(caffe, "conv2"), 16, WithReduction())), 0);

  ConfigurationOptions pinned;
  pinned.pins = {*ParsePin("fc6=n2r8")};
  const auto configurations = LegalConfigurations(AlexNet(), 16, pinned);
  ASSERT_TRUE(configurations.ok()) << configurations.message();
  for (size_t at = 0; at < configurations->size(); ++at) {
    const bool is_fc6 = AlexNet().layers[at].name == "fc6";
    EXPECT_EQ(reduced((*configurations)[at]), is_fc6 ? 1 : 0) << at;
  }
  pinned.pins = {*ParsePin("pool5=r2")};
  EXPECT_EQ(LegalConfigurations(AlexNet(), 16, pinned).message(),
            "pin 'pool5' {n=1, c=1, h=1, w=1, r=2}: its input 512x256x13x13 or output 512x256x6x6 "
            "cannot be divided so on 16 devices");
  pinned.pins = {*ParsePin("fc6=r4"), *ParsePin("fc6=c4")};
  EXPECT_FALSE(LegalConfigurations(AlexNet(), 16, pinned).ok());
  EXPECT_EQ(ShortText(ParsePin("fc6=n2r8")->degrees), "n2r8");
}

TEST(Reduction, MovesWhatACountOneByOneFinds) {
  const Machine machine =
      MadeMachine({{"inner", 3, 1, 0}, {"middle", 2, 1, 0}, {"outer", 2, 1, 0}});
  const unsigned seed = 20261122;
  RandomLayers random(seed);
  ConfigurationOptions options = WithReduction();
  options.uneven = true;
  options.placements = true;
  TrafficCounter counter(machine);
  for (int reductions = 0; reductions < 2'000;) {
    const LayerGraph graph = random.Next();
    const PlannedLayer& layer = LayerOf(graph, "layer");
    for (const ParallelConfiguration& configuration : LegalConfigurations(layer, 12, options)) {
      if (configuration.degrees.r == 1) continue;
      const Traffic& traffic = CountReduction(counter, layer, configuration);
      const Counted counted = CountPartialSums(machine, layer, configuration);
      ASSERT_EQ(traffic.moved, counted.moved)
          << "seed " << seed << " after " << reductions << ": " << Describe(layer.output) << " "
          << Describe(configuration.degrees);
      ASSERT_EQ(traffic.busiest, counted.busiest) << Describe(configuration.degrees);
      ++reductions;
    }
  }
}

// For each element and each input channel, exactly one device must compute the product, and this
// device must have the parameters.
TEST(Reduction, EveryProductIsComputedOnce) {
  GraphBuilder builder("small");
  const NodeId data = builder.Add("data", Input{5, {1, 4, 4}}, {});
  builder.Add("layer", Convolution{6, {1, 3, 3}}, {data});
  const LayerGraph graph = *BuildLayerGraph(*builder.Build(), 4);
  const PlannedLayer& layer = graph.layers.front();
  ConfigurationOptions options = WithReduction();
  options.uneven = true;
  int reductions = 0;
  for (const ParallelConfiguration& configuration : LegalConfigurations(layer, 8, options)) {
    if (configuration.degrees.r == 1) continue;
    ++reductions;
    const std::vector<PartialBox> partial = PartialBoxes(layer, configuration);
    const auto groups = ReplicaGroups(layer, configuration);
    for (int element = 0; element < 4 * 6 * 2 * 2 * 5; ++element) {
      const int c = element % 6;
      const int input = element / 6 % 5;
      const std::array<int64_t, kTensorAxes> at = {element / 30 % 4, c, 0, element / 120 % 2,
                                                   element / 240};
      std::vector<int> devices;
      for (const PartialBox& one : partial) {
        bool holds = one.input_channels.begin <= input && input < one.input_channels.end;
        for (size_t axis = 0; axis < kTensorAxes; ++axis) {
          holds &= one.box[axis].begin <= at[axis] && at[axis] < one.box[axis].end;
        }
        if (holds) devices.push_back(one.device);
      }
      ASSERT_EQ(devices.size(), 1u) << Describe(configuration.degrees) << " element " << element;
      for (const ReplicaGroup& group : groups) {
        const bool has_parameters = group.channels.begin <= c && c < group.channels.end &&
                                    group.input_channels.begin <= input &&
                                    input < group.input_channels.end;
        const bool is_there = std::count(group.devices.begin(), group.devices.end(), devices[0]);
        ASSERT_EQ(has_parameters, is_there) << Describe(configuration.degrees);
      }
    }
  }
  EXPECT_GE(reductions, 5);
}

TEST(Reduction, DividesParametersUpdatesAndMemory) {
  const PlannedLayer& fc6 = LayerOf(AlexNet(), "fc6");
  const Machine machine = MadeMachine({{"bus", 16, 8, 10}});
  const int64_t bytes = fc6.parameters * kElementBytes;
  for (const UpdateModel model : {UpdateModel::kParameterServer, UpdateModel::kRing,
                                  UpdateModel::kTree, UpdateModel::kHierarchical}) {
    EXPECT_EQ(UpdateMs(machine, model, {Reduced(16), 0}, bytes), 0);
    EXPECT_DOUBLE_EQ(UpdateMs(machine, model, {{4, 2, 1, 1, 2}, 0}, bytes),
                     UpdateMs(machine, model, {{4, 4}, 0}, bytes));
  }
  const int64_t parameters = int64_t{9216} * 4096 + 4096;
  const int64_t output = 512 * 4096;
  const int64_t momentum = 1;
  EXPECT_EQ(LayerMemoryBytes(fc6, {}, momentum, 7), 4 * (3 * parameters + output) + 7);
  EXPECT_EQ(LayerMemoryBytes(fc6, {1, 16}, momentum, 7),
            4 * (3 * parameters / 16 + output / 16) + 7);
  // A device has partial sums of all output channels, and keeps the sums of a 16th of the channels.
  EXPECT_EQ(LayerMemoryBytes(fc6, Reduced(16), momentum, 7),
            4 * (3 * parameters / 16 + output / 16 + output) + 7);
  EXPECT_EQ(LayerMemoryBytes(fc6, {2, 2, 1, 1, 4}, momentum, 7),
            4 * (3 * parameters / 8 + output / 16 + output / 4) + 7);
}

TEST(Reduction, ClosedFormsOfAFullyConnectedLayer) {
  const PlannedLayer& fc6 = LayerOf(AlexNet(), "fc6");
  const Machine machine = MadeMachine({{"bus", 16, 8, 10}});
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kRing, roofline);
  // Every port carries 15/16 of the output forward and 15/16 of its gradient backward.
  EXPECT_DOUBLE_EQ(model.ReductionMs(fc6, {Reduced(16), 0}),
                   2 * (15.0 / 16 * 512 * 4096 * 4 / 8e6 + 0.01));
  EXPECT_EQ(model.ReductionMs(fc6, {{4, 4}, 0}), 0);
  EXPECT_DOUBLE_EQ(LargestShare(fc6, {2, 2, 1, 1, 4}), 1.0 / 16);
  EXPECT_DOUBLE_EQ(LargestShare(fc6, Reduced(3)), 86.0 / 256);  // of fc6's 256 input channels
  // If fc6 has `channels` or `sums` and fc7 has `sums`, each device already holds the channels that
  // it reads, so nothing moves.
  const PlannedLayer& fc7 = LayerOf(AlexNet(), "fc7");
  const ParallelConfiguration channels{{1, 16}, 0};
  const ParallelConfiguration sums{Reduced(16), 0};
  EXPECT_EQ(model.Transfer(fc7, 0, {&channels, 1}, {&sums, 1}).ms.front(), 0);
  EXPECT_EQ(model.Transfer(fc7, 0, {&sums, 1}, {&sums, 1}).ms.front(), 0);
  EXPECT_GT(model.Transfer(fc7, 0, {&channels, 1}, {&channels, 1}).ms.front(), 0);
  // In the paper's model, a server receives from one worker after the other.
  const DeePaPaperModel paper;
  EXPECT_DOUBLE_EQ(paper.ReductionMs(fc6, sums), 16 * 8 / (15.0 / 7));  // 512 x 4096 floats: 8 MiB
  EXPECT_EQ(paper.Transfer(fc7, 0, {&channels, 1}, {&sums, 1}).ms.front(), 0);
  // With `whole`, 16 devices hold the channels. With `behind`, 32 devices need them.
  const ParallelConfiguration whole = {{.n = 1, .c = 16}}, behind = {{.n = 2, .r = 16}};
  EXPECT_GT(paper.Transfer(fc7, 0, {&whole, 1}, {&behind, 1}).ms.front(), 0);
  EXPECT_DOUBLE_EQ(paper.Compute(fc6, Reduced(16)).ms, 20.4 / 16);
}

// Computes the total of DeePa's equation 1 from the cost model alone. Gradients that are not
// computed do not move.
double Evaluate(const PlanningProblem& problem, const CostModel& model,
                const Assignment& assignment) {
  double ms = 0;
  for (int at = 0; at < static_cast<int>(assignment.size()); ++at) {
    const PlannedLayer& layer = problem.graph.layers[static_cast<size_t>(at)];
    const ParallelConfiguration& to = ConfigurationOf(problem, assignment, at);
    ms += model.Compute(layer, to.degrees).ms + model.UpdateMs(layer, to) +
          model.ReductionMs(layer, to) * (layer.has_gradient ? 1 : 0.5);
    for (int input = 0; input < static_cast<int>(layer.inputs.size()); ++input) {
      const int producer = layer.inputs[static_cast<size_t>(input)].producer;
      if (producer == kData) continue;
      const ParallelConfiguration& from = ConfigurationOf(problem, assignment, producer);
      const bool returns = layer.inputs[static_cast<size_t>(input)].has_gradient;
      ms += model.Transfer(layer, input, {&from, 1}, {&to, 1}).ms.front() * (returns ? 1 : 0.5);
    }
  }
  return ms;
}

TEST(Reduction, TheSearchFindsWhatEnumerationFinds) {
  const Machine machine = MadeMachine({{"inner", 2, 2, 1}, {"outer", 2, 1, 2}});
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kHierarchical, roofline);
  RandomLayers random(6);
  PlanningOptions options;
  options.configurations = WithReduction();
  int reducing = 0;
  for (int graphs = 0; graphs < 2'500;) {
    const PlanningProblem problem = *BuildPlanningProblem(random.Next(), 4, model, options);
    double plans = 1;
    for (const auto& configurations : problem.configurations) {
      plans *= static_cast<double>(configurations.size());
    }
    if (plans > 20'000) continue;
    double least_ms = 1e300;
    for (const Assignment& assignment : Enumerate(problem.search)) {
      least_ms = std::min(least_ms, TotalMs(problem.search, assignment));
    }
    const ParallelLayout found = *MakeLayout(problem, 4, Strategy::kDeePa);
    EXPECT_TRUE(found.optimal);
    EXPECT_NEAR(found.cost.total_ms, least_ms, 1e-9 * least_ms) << "graph " << graphs;
    EXPECT_NEAR(Evaluate(problem, model, found.assignment), least_ms, 1e-9 * least_ms);
    for (int at = 0; at < static_cast<int>(found.assignment.size()); ++at) {
      reducing += ConfigurationOf(problem, found.assignment, at).degrees.r > 1;
    }
    ++graphs;
  }
  EXPECT_GT(reducing, 10);
}

// `narrow` has many inputs and few outputs, like a bottleneck's first layer. Its partial sums have
// fewer elements than the inputs that every device would receive without reduction.
TEST(Reduction, PaysWhereInputsAreMoreThanOutputs) {
  GraphBuilder builder("narrow");
  const NodeId data = builder.Add("data", Input{2048, {1, 1, 1}}, {});
  const NodeId wide = builder.Add("wide", FullyConnected{16'384}, {data});
  const NodeId narrow = builder.Add("narrow", FullyConnected{64}, {wide});
  builder.Add("last", FullyConnected{16'384}, {narrow});
  const LayerGraph graph = *BuildLayerGraph(*builder.Build(), 64);
  const Machine machine = MadeMachine({{"bus", 8, 1, 1}});
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kRing, roofline);
  PlanningOptions options;
  const PlanningProblem without = *BuildPlanningProblem(graph, 8, model, options);
  options.configurations = WithReduction();
  const PlanningProblem with = *BuildPlanningProblem(graph, 8, model, options);
  const ParallelLayout before = *MakeLayout(without, 8, Strategy::kDeePa);
  const ParallelLayout after = *MakeLayout(with, 8, Strategy::kDeePa);
  EXPECT_LT(after.cost.total_ms, before.cost.total_ms);
  EXPECT_EQ(ShortText(ConfigurationOf(with, after.assignment, 1).degrees), "r8");
  const LayoutCost& cost = after.cost;
  EXPECT_NEAR(cost.total_ms, TotalMs(with.search, after.assignment), 1e-9 * cost.total_ms);
  // With a memory limit of exactly the bytes that `after` needs, MakeLayout must find a layout.
  const auto limited =
      MakeLayout(with, 8, Strategy::kDeePa, {}, TotalBytes(with.search, after.assignment));
  ASSERT_TRUE(limited.ok()) << limited.message();
  EXPECT_LE(limited->cost.memory_bytes, cost.memory_bytes);
}

}  // namespace
}  // namespace ucudnn::planner
