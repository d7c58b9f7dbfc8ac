// Compares layouts with each other, and with statements of the paper DeePa about layouts.
#include "planner/layout/strategies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "planner/cost/compute.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/deepa_paper.h"
#include "planner/cost/transfer.h"
#include "planner/graph/networks.h"
#include "planner/machine/presets.h"

namespace ucudnn::planner {
namespace {

PlanningProblem PaperProblem(const std::string& network, const PlanningOptions& options = {}) {
  return *BuildPlanningProblem(*BuildLayerGraph(*BuildNetwork(network), 512), 16, DeePaPaperModel(),
                               options);
}

Degrees DegreesOf(const PlanningProblem& problem, const Assignment& assignment,
                  const std::string& layer) {
  const auto at = static_cast<size_t>(problem.graph.Find(layer));
  return problem.configurations[at][static_cast<size_t>(assignment[at])].degrees;
}

int64_t MovedBytes(const ParallelLayout& layout) {
  return layout.cost.transfer_bytes + layout.cost.update_bytes;
}

TEST(Strategies, FollowTheirRules) {
  const PlanningProblem alexnet = PaperProblem("alexnet");
  const auto layouts = CompareLayouts(alexnet, 16);
  ASSERT_TRUE(layouts.ok()) << layouts.message();
  ASSERT_EQ(layouts->size(), 4u);
  const ParallelLayout& image = (*layouts)[0];
  const ParallelLayout& model = (*layouts)[1];
  const ParallelLayout& owt = (*layouts)[2];
  for (const PlannedLayer& layer : alexnet.graph.layers) {
    EXPECT_EQ(DegreesOf(alexnet, image.assignment, layer.name), Degrees{16});
  }
  EXPECT_EQ(DegreesOf(alexnet, model.assignment, "conv1"), (Degrees{1, 16}));
  EXPECT_EQ(DegreesOf(alexnet, owt.assignment, "pool5"), Degrees{16});
  EXPECT_EQ(DegreesOf(alexnet, owt.assignment, "fc6"), (Degrees{1, 16}));
  EXPECT_EQ(DegreesOf(alexnet, owt.assignment, "fc8"), (Degrees{1, 8}));  // 16 does not divide 1000
}

// Returns a network with two convolutions that share a filter. Different divisions are best for the
// layers beside each of them.
Graph SharedFilter() {
  GraphBuilder builder("shared");
  const NodeId data = builder.Add("data", Input{64, {1, 16, 16}, 2}, {});
  const Convolution filter{64, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1, false};
  const std::vector<Parameter> tensor = {{64 * 64 * 9, 7, true}};
  const NodeId first = builder.Add("first", filter, {data}, tensor);
  const NodeId pool =
      builder.Add("pool", Pooling{PoolingKind::kMaximum, {1, 16, 16}, {1, 16, 16}}, {first});
  const NodeId second = builder.Add("second", filter, {pool}, tensor);
  builder.Add("fc", FullyConnected{4096, true}, {second});
  return *builder.Build();
}

TEST(Strategies, LayersThatShareATensorDivideItAlikeAndUpdateItOnce) {
  const LayerGraph graph = *BuildLayerGraph(SharedFilter(), 8);
  EXPECT_EQ(graph.layers[0].parameters, 64 * 64 * 9);
  EXPECT_EQ(graph.layers[2].parameters, 0);
  EXPECT_EQ(graph.layers[2].weights, 64 * 64 * 9);
  const Machine machine = *MachineByName("k80x16");
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kParameterServer, roofline);
  const auto problem = BuildPlanningProblem(graph, 16, model);
  ASSERT_TRUE(problem.ok()) << problem.message();
  EXPECT_EQ(problem->search.edges.size(), problem->inputs.size() + 1);
  const auto found = Search(problem->search, {.plans = 50});
  ASSERT_TRUE(found.ok()) << found.message();
  for (const Plan& plan : found->plans) {
    if (plan.total_ms >= kForbiddenMs) continue;
    const Degrees first = DegreesOf(*problem, plan.assignment, "first");
    const Degrees second = DegreesOf(*problem, plan.assignment, "second");
    EXPECT_EQ(first.c, second.c);
    EXPECT_EQ(first.r, second.r);
  }
  EXPECT_LT(found->plans.front().total_ms, kForbiddenMs);
  PlanningOptions pinned;
  pinned.configurations.pins = {{"first", Degrees{1, 4}}, {"second", Degrees{1, 8}}};
  EXPECT_EQ(
      BuildPlanningProblem(graph, 16, model, pinned).message(),
      "layers 'first' and 'second' share parameters; expected pins that divide c and r alike");
}

TEST(Strategies, TermsAddUpAndNoneBeatsDeePa) {
  for (const std::string name : {"alexnet", "vgg16", "resnet18"}) {
    const PlanningProblem problem = PaperProblem(name);
    const auto layouts = CompareLayouts(problem, 16);
    ASSERT_TRUE(layouts.ok()) << layouts.message();
    const ParallelLayout& deepa = layouts->back();
    EXPECT_TRUE(deepa.optimal);
    for (const ParallelLayout& layout : *layouts) {
      const LayoutCost& cost = layout.cost;
      EXPECT_NEAR(cost.total_ms, TotalMs(problem.search, layout.assignment), 1e-9 * cost.total_ms);
      EXPECT_GE(cost.total_ms, deepa.cost.total_ms * (1 - 1e-12)) << StrategyName(layout.strategy);
    }
  }
}

TEST(Strategies, BestTotalsAreKnownOfTheLayoutItselfOrOfAll) {
  const PlanningProblem problem = PaperProblem("alexnet");
  const ParallelLayout own = *MakeLayout(problem, 16, Strategy::kDeePa);
  SearchOptions options;
  options.marginals = true;
  const ParallelLayout all = *MakeLayout(problem, 16, Strategy::kDeePa, options);
  EXPECT_EQ(own.assignment, all.assignment);
  for (size_t layer = 0; layer < problem.graph.layers.size(); ++layer) {
    for (size_t choice = 0; choice < problem.configurations[layer].size(); ++choice) {
      const auto& known = own.best_total_ms[layer][choice];
      ASSERT_EQ(known.has_value(), static_cast<int>(choice) == own.assignment[layer]);
      ASSERT_TRUE(all.best_total_ms[layer][choice]);
      EXPECT_GE(*all.best_total_ms[layer][choice], own.cost.total_ms * (1 - 1e-12));
      if (known) {
        EXPECT_NEAR(*known, *all.best_total_ms[layer][choice], 1e-9 * *known);
      }
    }
  }
  const ParallelLayout limited =
      *MakeLayout(problem, 16, Strategy::kDeePa, options, own.cost.memory_bytes);
  EXPECT_TRUE(limited.best_total_ms.empty());
}

TEST(Strategies, ABatchThatDevicesDoNotDivideIsNamed) {
  const auto problem =
      BuildPlanningProblem(*BuildLayerGraph(*BuildNetwork("alexnet"), 24), 16, DeePaPaperModel());
  EXPECT_EQ(MakeLayout(*problem, 16, Strategy::kImage).message(),
            "strategy image: layer 'conv1' with output 24x64x55x55 has no configuration that "
            "divides images by 16");
  const auto layouts = CompareLayouts(*problem, 16);
  ASSERT_EQ(layouts->size(), 2u);  // the layouts of `model` and `deepa`
  EXPECT_EQ(layouts->back().strategy, Strategy::kDeePa);
}

TEST(Strategies, Names) {
  EXPECT_EQ(*ParseStrategy("owt"), Strategy::kOwt);
  EXPECT_EQ(ParseStrategy("data").message(),
            "'data' is no strategy; expected one of image, model, owt, deepa");
}

// The layout of section 7.1.2 and Figure 9, except that fc6 has one worker here. In the paper fc6
// has two workers, because its Table 2 does not count the transfer of fc6's output.
TEST(DeePaLayouts, AlexNetDividesImagesUntilTheFullyConnectedLayers) {
  const PlanningProblem alexnet = PaperProblem("alexnet");
  const auto deepa = MakeLayout(alexnet, 16, Strategy::kDeePa);
  ASSERT_TRUE(deepa.ok()) << deepa.message();
  for (const PlannedLayer& layer : alexnet.graph.layers) {
    const Degrees degrees = DegreesOf(alexnet, deepa->assignment, layer.name);
    if (std::holds_alternative<FullyConnected>(layer.op)) {
      EXPECT_LE(degrees.Workers(), 2) << layer.name;
    } else {
      EXPECT_EQ(degrees, Degrees{16}) << layer.name;
    }
  }
}

// In section 7.1.3 and Figure 10, images are divided over all devices. The last three convolutions
// are on four devices, and the fully connected layers on few.
TEST(DeePaLayouts, Vgg16UsesFourWorkersForItsLastConvolutions) {
  const PlanningProblem vgg = PaperProblem("vgg16");
  const auto deepa = MakeLayout(vgg, 16, Strategy::kDeePa);
  ASSERT_TRUE(deepa.ok()) << deepa.message();
  for (const char* name : {"conv1_1", "pool1", "conv3_3", "conv4_3", "pool4"}) {
    EXPECT_EQ(DegreesOf(vgg, deepa->assignment, name), Degrees{16}) << name;
  }
  for (const char* name : {"conv5_1", "conv5_2", "conv5_3"}) {
    EXPECT_EQ(DegreesOf(vgg, deepa->assignment, name).Workers(), 4) << name;
  }
  for (const char* name : {"fc6", "fc7", "fc8"}) {
    EXPECT_LE(DegreesOf(vgg, deepa->assignment, name).Workers(), 2) << name;
  }
}

// According to Figure 8 and its text, OWT moves 1.05 to 8.4 times fewer bytes than image
// parallelism. DeePa moves 1.2 to 2.7 times fewer than OWT ("3 times" for AlexNet, section 7.1.2)
// and up to 23 times fewer than image parallelism.
TEST(DeePaLayouts, BytesMovedAreInTheOrderOfFigure8) {
  for (const std::string name : {"alexnet", "vgg16", "inception-v3"}) {
    const auto layouts = CompareLayouts(PaperProblem(name), 16);
    const auto image = static_cast<double>(MovedBytes((*layouts)[0]));
    const auto owt = static_cast<double>(MovedBytes((*layouts)[2]));
    const auto deepa = static_cast<double>(MovedBytes((*layouts)[3]));
    EXPECT_GE(image / owt, 1.05) << name;
    EXPECT_LE(image / owt, 8.4) << name;
    EXPECT_GE(owt / deepa, 1.15) << name;  // Inception-v3 has 1.19, printed as 1.2
    // For AlexNet the paper's range (2.7) and text (3) differ. The layout here puts all fully
    // connected layers on one device, and so moves a little less than the paper's, which has two
    // devices for fc6.
    EXPECT_LE(owt / deepa, name == "alexnet" ? 3.7 : 2.7) << name;
    EXPECT_LE(image / deepa, 23) << name;
  }
}

// According to appendix A.3, image parallelism moves 4 GB and DeePa 490 MB for VGG-16 with batch
// 128 on four devices. DeePa's layout divides images over four devices, and puts the fully
// connected layers on two devices.
TEST(DeePaLayouts, Vgg16OnFourDevicesMovesWhatAppendixA3Says) {
  const auto problem =
      BuildPlanningProblem(*BuildLayerGraph(*BuildNetwork("vgg16"), 128), 4, DeePaPaperModel());
  ASSERT_TRUE(problem.ok()) << problem.message();
  const ParallelLayout image = *MakeLayout(*problem, 4, Strategy::kImage);
  EXPECT_EQ(MovedBytes(image), int64_t{2} * 4 * 4 * 138'357'544);  // 4.12 GiB
  Assignment stated = image.assignment;
  for (const char* name : {"fc6", "fc7", "fc8"}) {
    const auto at = static_cast<size_t>(problem->graph.Find(name));
    const auto& choices = problem->configurations[at];
    const auto found =
        std::find(choices.begin(), choices.end(), ParallelConfiguration{{1, 2, 1, 1}, 0});
    stated[at] = static_cast<int>(found - choices.begin());
  }
  const LayoutCost cost = CostOf(*problem, stated);
  const double mib = static_cast<double>(cost.transfer_bytes + cost.update_bytes) / (1 << 20);
  EXPECT_NEAR(mib, 490, 5);
  // Only the parameters of convolutions are updated over devices. Forward and backward, each of two
  // devices receives three quarters of fc6's input and half of the inputs of fc7 and fc8.
  EXPECT_EQ(cost.update_bytes, int64_t{2} * 4 * 4 * 14'714'688);
  EXPECT_EQ(cost.transfer_bytes, int64_t{2} * 4 * 128 * (2 * 25088 * 3 / 4 + 2 * 4096));
}

// According to appendix A.4, with 21,841 classes image parallelism moves 5 to 10 GB more, and DeePa
// 40 MB more.
TEST(DeePaLayouts, ManyClassesCostImageParallelismGigabytes) {
  for (const std::string name : {"alexnet", "vgg16", "inception-v3"}) {
    const auto few = CompareLayouts(PaperProblem(name), 16);
    const auto many = CompareLayouts(PaperProblem(name + "-22k"), 16);
    const double gib = 1 << 30;
    const double image =
        static_cast<double>(MovedBytes(many->front()) - MovedBytes(few->front())) / gib;
    EXPECT_GT(image, 5) << name;
    EXPECT_LT(image, 10.5) << name;
    const double deepa =
        static_cast<double>(MovedBytes(many->back()) - MovedBytes(few->back())) / (1 << 20);
    EXPECT_LE(deepa, 40) << name;
  }
}

// According to Figure 2, with image parallelism the third convolution of Inception-v3 (C7 of Table
// 1, conv3) is fastest on 16 devices, and the last convolution (C8: 3x3 from 448 to 384 channels on
// 8 x 8 pixels) on 4.
class Figure2 : public testing::Test {
 protected:
  static const PlannedLayer& Layer(const std::string& name) {
    static const LayerGraph graph = *BuildLayerGraph(*BuildNetwork("inception-v3"), 512);
    return graph.layers[static_cast<size_t>(graph.Find(name))];
  }

  double UpdateMs(const PlannedLayer& layer, int n) const {
    return paper_.UpdateMs(layer, {{n}, 0});
  }

  int Best(const PlannedLayer& layer, const ComputeModel& compute) const {
    const auto ms = [&](int n) { return compute.Compute(layer, {n}).ms + UpdateMs(layer, n); };
    int least = 1;
    for (const int n : {2, 4, 8, 16}) {
      if (ms(n) < ms(least)) least = n;
    }
    return least;
  }

  // Returns a device on which C7 and C8 have the rate of Table 3's convolution, which is also 3x3
  // with stride 1.
  static Device AtTheRateOfTable3() {
    const LayerGraph vgg = *BuildLayerGraph(*BuildNetwork("vgg16"), 512);
    const PlannedLayer& layer = vgg.layers[static_cast<size_t>(vgg.Find("conv5_1"))];
    Device device = MachineByName("k80x16")->device;
    device.tflops = 3 * ForwardOperations(layer) / DeePaPaperModel().Compute(layer, {}).ms / 1e9;
    return device;
  }

  const DeePaPaperModel paper_;
  const Device device_ = MachineByName("k80x16")->device;
};

// DeePaPaperModel has no measurement of C8, and assumes a roofline: a direct convolution at the
// peak of half a K80, 4.37 TFLOP/s. At that rate 8 devices are 6 % faster than 4.
TEST_F(Figure2, TheModelsRooflineStopsAtEightDevices) {
  const Roofline roofline(device_);
  EXPECT_EQ(Best(Layer("conv3"), roofline), 16);
  EXPECT_EQ(Best(Layer("e2.3.2"), roofline), 8);
  EXPECT_EQ(Best(Layer("fc"), roofline), 1);
  const PlannedLayer& last = Layer("e2.3.2");
  EXPECT_EQ(last.weights, 448 * 384 * 9);
  for (const int n : {1, 4, 16}) {
    EXPECT_DOUBLE_EQ(paper_.Compute(last, {n}).ms, roofline.Compute(last, {n}).ms);
  }
  const double four = paper_.Compute(last, {4}).ms + UpdateMs(last, 4);
  const double eight = paper_.Compute(last, {8}).ms + UpdateMs(last, 8);
  EXPECT_NEAR(four / eight, 1.06, 0.02);
}

// Table 3's convolution was measured at 16.7 TFLOP/s. This is beyond the peak for direct
// convolutions, but possible with Winograd's algorithm. At this rate 4 devices are best for C8, as
// in the paper. In general, let a layer need t ms on one device, and its update u ms for each
// replica. Then 4 devices are best if 8 u < t < 32 u, which is true for C8 from 5.2 to 20.7
// TFLOP/s.
//
// DeePaPaperModel keeps the roofline nevertheless: at 16.7 TFLOP/s, AlexNet's convolutions would
// not use the 16 devices that Figure 9 gives them.
TEST_F(Figure2, AtTheRateThatTable3MeasuredTheLastLayerIsBestOnFour) {
  const Device measured = AtTheRateOfTable3();
  EXPECT_NEAR(measured.tflops, 16.7, 0.05);
  EXPECT_EQ(Best(Layer("conv3"), Roofline(measured)), 16);
  const PlannedLayer& last = Layer("e2.3.2");
  EXPECT_EQ(Best(last, Roofline(measured)), 4);
  const double operations = 3 * ForwardOperations(last) / 1e9;  // in 1e9; TFLOP/s = 1e9 / ms
  const double update_ms = UpdateMs(last, 2) / 2;
  EXPECT_NEAR(operations / (32 * update_ms), 5.2, 0.05);
  EXPECT_NEAR(operations / (8 * update_ms), 20.7, 0.05);
  EXPECT_LT(device_.tflops, operations / (32 * update_ms));
}

// Section 7.1.4 states that DeePa moves 30 % less data than image parallelism in InceptionE1 and
// E2, and 20 % less overall. The test accepts 5 points more or less. d.concat, the input of E1,
// counts as part of E1.
TEST(DeePaLayouts, InceptionV3MovesAFifthLess) {
  const PlanningProblem inception = PaperProblem("inception-v3");
  const auto layouts = CompareLayouts(inception, 16);
  const ParallelLayout& image = layouts->front();
  const ParallelLayout& deepa = layouts->back();
  EXPECT_TRUE(deepa.optimal);
  EXPECT_NEAR(1 - static_cast<double>(MovedBytes(deepa)) / static_cast<double>(MovedBytes(image)),
              0.20, 0.05);
  const auto moved_by_e = [&](const ParallelLayout& layout) {
    const Machine devices = *MachineByName("k80x16");
    TrafficCounter counter(devices);
    int64_t bytes = 0;
    const auto chosen = [&](size_t at) {
      return inception.configurations[at][static_cast<size_t>(layout.assignment[at])];
    };
    for (size_t at = 0; at < inception.graph.layers.size(); ++at) {
      const PlannedLayer& layer = inception.graph.layers[at];
      if (layer.name[0] != 'e' && layer.name != "d.concat") continue;
      const Degrees to = chosen(at).degrees;
      bytes += UpdateBytes(UpdateModel::kParameterServer, to, layer.parameters * kElementBytes);
      for (size_t input = 0; input < layer.inputs.size(); ++input) {
        const auto producer = static_cast<size_t>(layer.inputs[input].producer);
        const Parts held = OutputParts(layer.inputs[input].shape, chosen(producer).degrees);
        const Parts needed = NeededParts(layer, static_cast<int>(input), to);
        bytes += 2 * counter.Count(held, 0, needed, 0).moved * kElementBytes;
      }
    }
    return static_cast<double>(bytes);
  };
  EXPECT_NEAR(1 - moved_by_e(deepa) / moved_by_e(image), 0.30, 0.05);
}

TEST(PlanningProblem, TransfersAreTheModelsForEveryPair) {
  const Machine machine = *MachineByName("p100x4x4");
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kHierarchical, roofline);
  const auto problem =
      BuildPlanningProblem(*BuildLayerGraph(*BuildNetwork("resnet18"), 64), 16, model);
  ASSERT_TRUE(problem.ok()) << problem.message();
  ASSERT_TRUE(Check(problem->search).ok()) << Check(problem->search).message();
  for (size_t at = 0; at < problem->search.edges.size(); ++at) {
    const auto& edge = problem->search.edges[at];
    const TransferTables tables =
        model.Transfer(problem->graph.layers[static_cast<size_t>(edge.to)], problem->inputs[at],
                       problem->configurations[static_cast<size_t>(edge.from)],
                       problem->configurations[static_cast<size_t>(edge.to)]);
    EXPECT_EQ(edge.ms, tables.ms) << "edge " << at;
    EXPECT_EQ(edge.bytes, tables.copied_bytes) << "edge " << at;
  }
}

TEST(PlanningProblem, MemoryLimitsAreObeyed) {
  const Machine machine = *MachineByName("k80x16");
  const Roofline roofline(machine.device);
  const MachineCostModel model(machine, UpdateModel::kRing, roofline);
  const auto problem =
      BuildPlanningProblem(*BuildLayerGraph(*BuildNetwork("vgg16"), 512), 16, model);
  const auto free = Search(problem->search);
  const int64_t needed = TotalBytes(problem->search, free->plans[0].assignment);
  const auto limited = SearchWithin(problem->search, needed - 1);
  ASSERT_TRUE(limited.ok()) << limited.message();
  EXPECT_LT(limited->bytes, needed);
  EXPECT_GE(limited->plan.total_ms, free->plans[0].total_ms);
  EXPECT_LE(limited->lower_bound_ms, limited->plan.total_ms * (1 + 1e-12));
  EXPECT_EQ(SearchWithin(problem->search, 1 << 20).ok(), false);
}

}  // namespace
}  // namespace ucudnn::planner
