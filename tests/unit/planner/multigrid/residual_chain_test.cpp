#include "planner/multigrid/residual_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <set>

#include "base/text.h"
#include "planner/graph/network_file.h"
#include "planner/graph/networks.h"
#include "planner/graph/networks/chain.h"
#include "tests/support/must.h"

namespace ucudnn::multigrid {
namespace {

using namespace ucudnn::planner;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Names(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<std::string> names;
  for (const NodeId node : nodes) names.push_back(graph.nodes[static_cast<size_t>(node)].name);
  return Join(names, " ");
}

// Returns a text for each section: "serial NODES", or for a stage "SHAPE from INPUT: NODES + SUM,
// ...", with the nodes of each step.
std::vector<std::string> Sections(const ResidualChain& chain) {
  std::vector<std::string> texts;
  for (const auto& section : chain.sections) {
    if (const auto* serial = std::get_if<SerialSection>(&section)) {
      texts.push_back("serial " + Names(chain.graph, serial->nodes));
      continue;
    }
    const Stage& stage = std::get<Stage>(section);
    std::vector<std::string> steps;
    for (const ResidualStep& step : stage.steps) {
      steps.push_back(Names(chain.graph, step.transformation) + " + " +
                      Names(chain.graph, {step.sum}));
    }
    texts.push_back(Describe(stage.shape) + " from " + Names(chain.graph, {stage.input}) + ": " +
                    Join(steps, ", "));
  }
  return texts;
}

std::vector<std::string> SectionsOf(const Result<Graph>& graph) {
  if (!graph.ok()) return {graph.message()};
  const auto chain = MakeResidualChain(*graph, BatchNorms::kFrozen);
  return chain.ok() ? Sections(*chain) : std::vector<std::string>{chain.message()};
}

// Returns a text for each stage, such as "2 of 1x64x56x56": the number of steps and the shape.
std::vector<std::string> StagesOf(const std::string& network) {
  const auto chain = MakeResidualChain(*BuildNetwork(network), BatchNorms::kFrozen);
  if (!chain.ok()) return {chain.message()};
  std::vector<std::string> texts;
  for (const Stage* stage : chain->Stages()) {
    texts.push_back(std::to_string(stage->steps.size()) + " of " + Describe(stage->shape));
  }
  return texts;
}

std::string Refusal(const std::string& network, BatchNorms norms = BatchNorms::kFrozen) {
  return MakeResidualChain(*BuildNetwork(network), norms).message();
}

// Expects that the sections have every node exactly once, and each node after its inputs.
void ExpectOrdered(const ResidualChain& chain) {
  std::set<NodeId> done;
  const auto run = [&](NodeId node) {
    for (const NodeId input : chain.graph.nodes[static_cast<size_t>(node)].inputs) {
      EXPECT_EQ(done.count(input), 1u) << chain.graph.nodes[static_cast<size_t>(node)].name;
    }
    EXPECT_TRUE(done.insert(node).second);
  };
  for (const auto& section : chain.sections) {
    if (const auto* serial = std::get_if<SerialSection>(&section)) {
      for (const NodeId node : serial->nodes) run(node);
      continue;
    }
    NodeId state = std::get<Stage>(section).input;
    for (const ResidualStep& step : std::get<Stage>(section).steps) {
      NodeId last = state;
      for (const NodeId node : step.transformation) {
        EXPECT_THAT(chain.graph.nodes[static_cast<size_t>(node)].inputs, ElementsAre(last));
        run(last = node);
      }
      EXPECT_THAT(chain.graph.nodes[static_cast<size_t>(step.sum)].inputs,
                  ::testing::UnorderedElementsAre(state, last));
      run(state = step.sum);
    }
  }
  EXPECT_EQ(done.size(), chain.graph.nodes.size());
}

TEST(ResidualChain, KirbysNetworksAreOneStage) {
  for (const char* network : {"kirby-3m", "kirby-3m-nobias"}) {
    const auto chain = test::Must(MakeResidualChain(*BuildNetwork(network), BatchNorms::kRefused));
    EXPECT_EQ(chain.StepCount(), 4'093);
    const std::vector<std::string> sections = Sections(chain);
    ASSERT_EQ(sections.size(), 3u);
    EXPECT_EQ(sections[0], "serial data opening opening.relu");
    EXPECT_THAT(sections[1], StartsWith("1x4x24x24 from opening.relu: step1.conv step1.relu + "
                                        "step1.add, step2.conv step2.relu + step2.add, "));
    EXPECT_EQ(sections[2], "serial fc prob");
    ExpectOrdered(chain);
    ASSERT_EQ(chain.shapes.size(), chain.graph.nodes.size());
    EXPECT_EQ(Describe(chain.shapes[0]), "1x1x28x28");
    EXPECT_EQ(Describe(chain.shapes.back()), "1x10x1x1");
  }
  const auto chain = test::Must(MakeResidualChain(*BuildNetwork("kirby-2b"), BatchNorms::kRefused));
  EXPECT_EQ(chain.StepCount(), 4'097 + 15);
  const std::vector<std::string> sections = Sections(chain);
  ASSERT_EQ(sections.size(), 3u);
  EXPECT_THAT(sections[1], StartsWith("1x20x24x24 from opening.relu: step1.conv"));
  EXPECT_THAT(sections[1], HasSubstr("step257.conv step257.relu + step257.add, step258.fc "
                                     "step258.relu step258.map + step258.add, step259.conv"));
}

TEST(ResidualChain, ResNetsHaveAStageForEveryShape) {
  EXPECT_THAT(StagesOf("resnet18-v2"), ElementsAre("2 of 1x64x56x56", "1 of 1x128x28x28",
                                                   "1 of 1x256x14x14", "1 of 1x512x7x7"));
  EXPECT_THAT(StagesOf("resnet34-v2"), ElementsAre("3 of 1x64x56x56", "3 of 1x128x28x28",
                                                   "5 of 1x256x14x14", "2 of 1x512x7x7"));
  EXPECT_THAT(StagesOf("resnet50-v2"), ElementsAre("2 of 1x256x56x56", "3 of 1x512x28x28",
                                                   "5 of 1x1024x14x14", "2 of 1x2048x7x7"));
  EXPECT_THAT(StagesOf("resnet101-v2"), ElementsAre("2 of 1x256x56x56", "3 of 1x512x28x28",
                                                    "22 of 1x1024x14x14", "2 of 1x2048x7x7"));
  EXPECT_THAT(StagesOf("resnet152-v2"), ElementsAre("2 of 1x256x56x56", "7 of 1x512x28x28",
                                                    "35 of 1x1024x14x14", "2 of 1x2048x7x7"));
}

TEST(ResidualChain, BlocksThatChangeTheShapeRunSerially) {
  const auto chain =
      test::Must(MakeResidualChain(*BuildNetwork("resnet18-v2"), BatchNorms::kFrozen));
  EXPECT_EQ(chain.StepCount(), 5);
  ExpectOrdered(chain);
  const std::vector<std::string> sections = Sections(chain);
  ASSERT_EQ(sections.size(), 9u);
  EXPECT_EQ(sections[0], "serial data conv1 bn1 relu1 pool1");
  EXPECT_EQ(sections[1],
            "1x64x56x56 from pool1: layer1.0.conv1 layer1.0.bn2 layer1.0.relu2 layer1.0.conv2 + "
            "layer1.0.add, layer1.1.bn1 layer1.1.relu1 layer1.1.conv1 layer1.1.bn2 layer1.1.relu2 "
            "layer1.1.conv2 + layer1.1.add");
  EXPECT_EQ(sections[2],
            "serial layer2.0.bn1 layer2.0.relu1 layer2.0.downsample layer2.0.conv1 layer2.0.bn2 "
            "layer2.0.relu2 layer2.0.conv2 layer2.0.add");
  EXPECT_EQ(sections[8], "serial bn5 relu5 pool5 fc prob");
}

// Builds networks by hand. Maps have 4 channels and 6 x 6 pixels.
class Net {
 public:
  Net() : net_("net", 4, 6) {}

  NodeId last() const { return net_.last(); }
  Net& Op(const std::string& name, const Operator& op) {
    net_.Append(name, op);
    return *this;
  }
  Net& From(NodeId node) {
    net_.ContinueFrom(node);
    return *this;
  }
  Net& Sum(const std::string& name, const std::vector<NodeId>& inputs) {
    net_.Join(name, Add{}, inputs);
    return *this;
  }
  Net& Conv(const std::string& name) { return Op(name, Square(4, 3, 1, 1, true)); }
  // Appends NAME.conv, then `more` as NAME.more, then NAME.add.
  Net& Step(const std::string& name, const std::vector<Operator>& more = {}) {
    const NodeId input = last();
    Conv(name + ".conv");
    for (const Operator& op : more) Op(name + ".more", op);
    return Sum(name + ".add", {input, last()});
  }
  Result<Graph> Build() const { return net_.Build(); }
  std::vector<std::string> Sections() const { return SectionsOf(Build()); }
  std::string Refusal(BatchNorms norms = BatchNorms::kFrozen) const {
    return MakeResidualChain(*Build(), norms).message();
  }

 private:
  Chain net_;
};

TEST(ResidualChain, AStateThatOthersReadEndsItsStage) {
  Net net;
  net.Step("a").Step("b");
  const NodeId read = net.last();
  net.Step("c").Step("d").Sum("skip", {read, net.last()});
  EXPECT_THAT(net.Sections(),
              ElementsAre("serial data", "1x4x6x6 from data: a.conv + a.add, b.conv + b.add",
                          "1x4x6x6 from b.add: c.conv + c.add, d.conv + d.add", "serial skip"));
}

TEST(ResidualChain, ALayerThatOthersReadIsOfNoStep) {
  Net net;
  const NodeId data = net.last();
  const NodeId conv = net.Conv("conv").last();
  net.Op("relu", Activation{}).Sum("a", {data, net.last()}).Sum("b", {conv, net.last()});
  net.Step("c").Step("d");
  EXPECT_THAT(net.Sections(), ElementsAre("serial data conv relu a b",
                                          "1x4x6x6 from b: c.conv + c.add, d.conv + d.add"));
}

TEST(ResidualChain, WhatRunsBesidesAStageRunsBeforeIt) {
  Net net;
  const NodeId data = net.last();
  const NodeId first = net.Conv("first").last();
  net.From(data).Conv("beside1");
  const NodeId beside = net.last();
  const NodeId second = net.From(first).Step("a").last();
  const NodeId other = net.From(beside).Conv("beside2").last();
  net.From(second).Step("b").Sum("sum", {other, net.last()});
  EXPECT_THAT(net.Sections(),
              ElementsAre("serial data first beside1 beside2",
                          "1x4x6x6 from first: a.conv + a.add, b.conv + b.add", "serial sum"));
}

// The nodes of the two stages alternate in the graph.
TEST(ResidualChain, StagesBesideEachOther) {
  Net net;
  const NodeId data = net.last();
  NodeId left = net.Conv("left").last();
  NodeId right = net.From(data).Conv("right").last();
  for (const std::string number : {"1", "2"}) {
    left = net.From(left).Step("l" + number).last();
    right = net.From(right).Step("r" + number).last();
  }
  net.Sum("sum", {left, right});
  EXPECT_THAT(
      net.Sections(),
      ElementsAre("serial data left right", "1x4x6x6 from left: l1.conv + l1.add, l2.conv + l2.add",
                  "1x4x6x6 from right: r1.conv + r1.add, r2.conv + r2.add", "serial sum"));
}

TEST(ResidualChain, LongerStagesMayBeJoinedByAnActivation) {
  Net net;
  net.Step("a").Step("b").Op("relu", Activation{}).Step("c");
  EXPECT_THAT(net.Sections(),
              ElementsAre("serial data", "1x4x6x6 from data: a.conv + a.add, b.conv + b.add",
                          "serial relu", "1x4x6x6 from relu: c.conv + c.add"));
}

// Reads `text` from a temporary file.
Result<Graph> LoadText(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/residual_chain_test.json";
  std::ofstream(path) << text;
  Result<Graph> graph = LoadNetwork(path);
  std::remove(path.c_str());
  return graph;
}

TEST(ResidualChainFile, Json) {
  const std::string begin = R"({"format": "ucudnn-net", "version": 1, "name": "small", "nodes": [
    {"name": "data", "op": "input", "channels": 2, "extents": [5, 5]},
    {"name": "conv1", "op": "convolution", "inputs": ["data"], "filters": 2, "window": [3, 3], "pad": [1, 1]},
    {"name": "tanh1", "op": "activation", "inputs": ["conv1"], "kind": "tanh"},
    {"name": "sum1", "op": "add", "inputs": ["data", "tanh1"]},
    {"name": "fc2", "op": "fully_connected", "inputs": ["sum1"], "outputs": 50},)";
  EXPECT_THAT(SectionsOf(LoadText(begin + R"(
    {"name": "map2", "op": "reshape", "inputs": ["fc2"], "channels": 2, "extents": [5, 5]},
    {"name": "sum2", "op": "add", "inputs": ["sum1", "map2"]},
    {"name": "fc", "op": "fully_connected", "inputs": ["sum2"], "outputs": 10}]})")),
              ElementsAre("serial data", "1x2x5x5 from data: conv1 tanh1 + sum1, fc2 map2 + sum2",
                          "serial fc"));
  // The message must name the shapes of the file that do not fit.
  EXPECT_THAT(
      LoadText(begin + R"({"name": "sum2", "op": "add", "inputs": ["sum1", "fc2"]}]})").message(),
      HasSubstr("node 'sum2': adds 1x2x5x5 and 1x50x1x1; expected equal shapes"));
}

TEST(ResidualChainFile, Onnx) {
  EXPECT_THAT(
      SectionsOf(LoadNetwork(PLANNER_TEST_DATA "/torch_layers.onnx")),
      ElementsAre("serial input /Conv_0 /Relu_0",
                  "1x4x8x8 from /Relu_0: /Conv_1 /Relu_1 + /Add_0, /Conv_2 /Relu_2 + /Add_1, "
                  "/Gemm_0 /Relu_3 /Add_2.axes + /Add_2, /Conv_3 /Relu_4 + /Add_3",
                  "serial /Gemm_1 /Softmax_0"));
  const auto chain = test::Must(MakeResidualChain(
      *LoadNetwork(PLANNER_TEST_DATA "/torch_resnet18_v2.onnx"), BatchNorms::kFrozen));
  EXPECT_EQ(chain.StepCount(), 5);
  EXPECT_THAT(
      SectionsOf(LoadNetwork(PLANNER_TEST_DATA "/torch_resnet50.onnx")),
      ElementsAre(
          "torch_resnet50: node '/Relu_6': relu between the residual steps '/Add_1' and '/Add_2'; "
          "expected the sum itself as the next step's input, as in resnet50-v2"));
}

TEST(ResidualChainRefusal, PostActivationNamesTheNetworkThatWouldDo) {
  for (const BatchNorms norms : {BatchNorms::kFrozen, BatchNorms::kRefused}) {
    EXPECT_EQ(Refusal("resnet18", norms),
              "resnet18: node 'layer1.0.relu2': relu between the residual steps 'layer1.0.add' and "
              "'layer1.1.add'; expected the sum itself as the next step's input, as in "
              "resnet18-v2");
    EXPECT_THAT(Refusal("resnet50", norms), HasSubstr("as in resnet50-v2"));
    EXPECT_THAT(Refusal("resnet152", norms), HasSubstr("as in resnet152-v2"));
  }
  Net net;
  net.Step("a").Op("norm", BatchNormalization{}).Op("tanh", Activation{ActivationKind::kTanh});
  EXPECT_EQ(net.Step("b").Refusal(),
            "net: node 'norm': batch_normalization between the residual steps 'a.add' and 'b.add'; "
            "expected the sum itself as the next step's input, as in resnet50-v2");
}

TEST(ResidualChainRefusal, BatchNormalisationsThatAreNotFrozen) {
  EXPECT_EQ(Refusal("resnet18-v2", BatchNorms::kRefused),
            "resnet18-v2: node 'layer1.0.bn2': batch_normalization in the residual step "
            "'layer1.0.add', whose statistics couple the images of a mini-batch, and so the solves "
            "of the layers; expected none, or a frozen one");
}

TEST(ResidualChainRefusal, OtherOperatorsInAStep) {
  const auto refused = [](const Operator& op) { return Net().Step("a", {op}).Step("b").Refusal(); };
  EXPECT_EQ(refused(Activation{ActivationKind::kSwish}),
            "net: node 'a.more': swish in the residual step 'a.add'; expected relu or tanh");
  const std::string expected =
      " in the residual step 'a.add'; expected convolutions, fully connected layers, relu, tanh "
      "and frozen batch normalisations";
  EXPECT_EQ(refused(Dropout{}), "net: node 'a.more': dropout" + expected);
  EXPECT_EQ(refused(Scale{}), "net: node 'a.more': scale" + expected);
  EXPECT_EQ(refused(LocalResponseNormalization{}), "net: node 'a.more': lrn" + expected);
  EXPECT_EQ(refused(SquarePooling(PoolingKind::kMaximum, 3, 1, 1)),
            "net: node 'a.more': pooling" + expected);
  EXPECT_EQ(refused(Softmax{}), "net: node 'a.more': softmax" + expected);
}

TEST(ResidualChainRefusal, NetworksWithoutSteps) {
  const std::string expected =
      "; expected sums of two inputs: a node, and the end of a chain of layers that begins with it";
  EXPECT_EQ(Refusal("vgg16"), "vgg16: no residual step" + expected);
  EXPECT_EQ(Refusal("densenet121"), "densenet121: no residual step" + expected);
  EXPECT_EQ(Refusal("efficientnet-b0"),
            "efficientnet-b0: node 'stage2.1.add': no residual step, and no other node is one" +
                expected);
  Net three;
  const NodeId data = three.last();
  const NodeId left = three.Conv("left").last();
  const NodeId right = three.From(data).Conv("right").last();
  EXPECT_EQ(three.Sum("sum", {data, left, right}).Refusal(),
            "net: node 'sum': no residual step, and no other node is one" + expected);
  Net twice;
  EXPECT_THAT(twice.Sum("twice", {twice.last(), twice.last()}).Refusal(),
              StartsWith("net: node 'twice': no residual step"));
}

TEST(ResidualChainRefusal, StepsThatStandAlone) {
  EXPECT_EQ(Net().Conv("conv").Step("a").Refusal(),
            "net: node 'a.add': no residual step follows it at once, nor any other; expected two "
            "or more of one shape in a row");
  EXPECT_THAT(Net().Step("a").Conv("conv").Step("b").Refusal(), HasSubstr("node 'a.add'"));
}

// A random chain with all kinds of operators. sections() returns the sections into which
// MakeResidualChain must divide it, as Sections() writes them.
class RandomChain {
 public:
  explicit RandomChain(std::mt19937& random) : random_(random) {
    Serial("data");
    const int stages = Draw(1, 4);
    const int longest = Draw(1, stages);
    for (int stage = 1; stage <= stages; ++stage) {
      if (stage > 1 || Draw(0, 1) == 0) AddSerial();
      AddStage(stage == longest ? Draw(2, 5) : Draw(1, 4), stage == longest);
    }
    if (Draw(0, 1) == 0 || !later_.empty()) AddSerial();
    if (Chance()) {
      Serial(Append("fc", FullyConnected{3, true}));
      Serial(Append("prob", Softmax{}));
    }
  }

  Graph graph() const { return test::Must(net_.Build()); }
  const std::vector<std::string>& sections() const { return sections_; }
  int steps() const { return steps_; }

 private:
  int Draw(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  bool Chance() { return Draw(0, 3) == 0; }
  std::string Append(const std::string& kind, const Operator& op) {
    const std::string name = kind + std::to_string(++names_);
    net_.Append(name, op);
    return name;
  }
  std::string Join(const std::vector<NodeId>& inputs) {
    const std::string name = "add" + std::to_string(++names_);
    net_.Join(name, Add{}, inputs);
    return name;
  }
  void Serial(const std::string& node) {
    if (sections_.empty() || !sections_.back().starts_with("serial"))
      sections_.emplace_back("serial");
    sections_.back() += " " + node;
  }
  Convolution Same(int32_t window) { return Square(channels_, window, 1, window / 2, Chance()); }
  Operator Function() {
    return Activation{Chance() ? ActivationKind::kTanh : ActivationKind::kRelu};
  }

  // Adds a serial section with at least one operator that is no activation. If there were only
  // activations between two steps, the steps would be one stage of post-activated steps.
  void AddSerial() {
    for (const NodeId node : later_) {
      const NodeId last = net_.last();
      net_.ContinueFrom(node);
      Serial(Append("reader", Function()));
      net_.ContinueFrom(last);
    }
    later_.clear();
    if (Chance()) Serial(Append("bn", BatchNormalization{}));
    if (Chance()) Serial(Append("act", Function()));
    switch (Draw(0, 3)) {
      case 0:
        Serial(Append("conv", Same(3)));
        break;
      case 1:
        channels_ = Draw(1, 4);
        Serial(Append("conv", Square(channels_, 1)));
        break;
      case 2: {
        const int32_t stride = extent_ >= 4 ? 2 : 1;
        extent_ = (extent_ - 1) / stride + 1;
        Serial(Append("pool", SquarePooling(PoolingKind::kMaximum, 1, stride)));
        break;
      }
      default:
        AddProjection();
    }
    if (Chance()) Serial(Append("drop", Dropout{}));
  }
  // Adds a sum that is no step, because neither of its inputs is computed from the other.
  void AddProjection() {
    Serial(Append("act", Function()));
    const NodeId input = net_.last();
    channels_ = Draw(1, 4);
    Serial(Append("projection", Square(channels_, 1)));
    std::vector<NodeId> inputs = {net_.last()};
    for (int branch = Draw(1, 2); branch > 0; --branch) {
      net_.ContinueFrom(input);
      Serial(Append("conv", Same(3)));
      if (Chance()) Serial(Append("act", Function()));
      inputs.push_back(net_.last());
    }
    Serial(Join(inputs));
  }

  // Adds the nodes of the transformation F of one step, and returns their names.
  std::vector<std::string> AddTransformation() {
    std::vector<std::string> nodes;
    for (int layer = Draw(1, 2); layer > 0; --layer) {
      if (Chance()) nodes.push_back(Append("bn", BatchNormalization{}));
      if (Chance()) nodes.push_back(Append("act", Function()));
      switch (Draw(0, 4)) {
        case 0:  // with another number of channels between two convolutions
          nodes.push_back(Append("conv", Square(Draw(1, 4), 1)));
          nodes.push_back(Append("conv", Same(3)));
          break;
        case 1:
          if (Draw(0, 1) == 0) nodes.push_back(Append("flat", Flatten{}));
          nodes.push_back(Append("fc", FullyConnected{channels_ * extent_ * extent_, Chance()}));
          if (Draw(0, 1) == 0) nodes.push_back(Append("act", Function()));
          nodes.push_back(Append("map", Reshape{channels_, {1, extent_, extent_}, 2}));
          break;
        default:
          nodes.push_back(Append("conv", Same(2 * Draw(0, 3) + 1)));
      }
      if (Draw(0, 1) == 0) nodes.push_back(Append("act", Function()));
      if (Chance()) beside_.push_back(AppendBeside());
    }
    return nodes;
  }
  // Adds a node that reads data_ and belongs to no step, and returns its name. May be called while
  // the nodes of a step are being added.
  std::string AppendBeside() {
    const NodeId last = net_.last();
    net_.ContinueFrom(data_);
    const std::string name = Append("beside", Square(2, 1));
    net_.ContinueFrom(last);
    return name;
  }

  // Adds `steps` steps and the sections that they form. If `whole`, the first two steps must be in
  // one stage.
  void AddStage(int steps, bool whole) {
    std::vector<std::string> texts;
    std::string input = Last();
    const auto end = [&] {
      for (const std::string& node : beside_) Serial(node);
      beside_.clear();
      sections_.push_back("1x" + std::to_string(channels_) + "x" + std::to_string(extent_) + "x" +
                          std::to_string(extent_) + " from " + input + ": " +
                          ucudnn::Join(texts, ", "));
      texts.clear();
      input = Last();
    };
    for (int step = 1; step <= steps; ++step) {
      const NodeId state = net_.last();
      const std::string nodes = ucudnn::Join(AddTransformation(), " ");
      const NodeId last = net_.last();
      const std::string sum = Draw(0, 1) == 0 ? Join({state, last}) : Join({last, state});
      texts.push_back(nodes + " + " + sum);
      ++steps_;
      if (step == steps || (whole && step == 1) || !Chance()) continue;
      end();  // a stage ends here, because another node will read this state
      if (Draw(0, 1) == 0) {
        later_.push_back(net_.last());
      } else {
        const NodeId read = net_.last();
        Serial(Append("reader", Function()));
        net_.ContinueFrom(read);
      }
    }
    end();
  }
  // Returns the name of the node that the next appended node will read.
  std::string Last() {
    const Graph graph = *net_.Build();
    return graph.nodes[static_cast<size_t>(net_.last())].name;
  }

  std::mt19937& random_;
  int32_t channels_ = Draw(1, 3);
  int32_t extent_ = Draw(4, 9);
  Chain net_{"random", channels_, extent_};
  const NodeId data_ = net_.last();
  int names_ = 0;
  int steps_ = 0;
  std::vector<std::string> sections_;
  std::vector<std::string> beside_;
  std::vector<NodeId> later_;  // states that nodes of the next serial section will read
};

TEST(ResidualChain, RandomChainsAreTakenApartAsTheyWerePutTogether) {
  const unsigned seed = 20261126;
  std::mt19937 random(seed);
  size_t stages = 0;
  for (int trial = 0; trial < 10'000; ++trial) {
    const RandomChain drawn(random);
    const auto chain = MakeResidualChain(drawn.graph(), BatchNorms::kFrozen);
    ASSERT_TRUE(chain.ok()) << "seed " << seed << ", trial " << trial << ": " << chain.message();
    ASSERT_EQ(Sections(*chain), drawn.sections()) << "seed " << seed << ", trial " << trial;
    ASSERT_EQ(chain->StepCount(), drawn.steps());
    if (trial % 10 == 0) ExpectOrdered(*chain);
    for (const auto& section : chain->sections) stages += std::holds_alternative<Stage>(section);
  }
  EXPECT_GT(stages, 20'000u);
}

}  // namespace
}  // namespace ucudnn::multigrid
