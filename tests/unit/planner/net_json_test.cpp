#include "planner/graph/formats/net_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/graph/networks.h"
#include "planner/graph/shapes.h"
#include "unit/planner/imports.h"

namespace ucudnn::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Document(const std::string& nodes) {
  return R"({"format": "ucudnn-net", "version": 1, "name": "tiny", "nodes": [)" + nodes + "]}";
}

const std::string kData = R"({"name": "data", "op": "input", "channels": 3, "extents": [9, 9]})";

// Returns the error for a network that consists of an image and `node`.
std::string Refusal(const std::string& node) {
  return ParseNetJson(Document(kData + ", " + node), "net.json").message();
}

TEST(NetJson, EveryBuiltInNetworkComesBack) {
  for (const std::string& name : NetworkNames()) {
    const auto graph = BuildNetwork(name);
    const std::string text = WriteNetJson(*graph);
    const auto read = ParseNetJson(text, "net.json");
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_EQ(read->name, name);
    EXPECT_EQ(Listing(*read), Listing(*graph));
    EXPECT_EQ(SortedConvolutions(*read), SortedConvolutions(*graph));
    EXPECT_EQ(WriteNetJson(*read), text);
  }
}

TEST(NetJson, MembersHaveDefaultsAndDepth) {
  const auto graph =
      ParseNetJson(Document(R"({"name": "data", "op": "input", "channels": 2, "extents": [8, 9, 9]},
        {"name": "conv", "op": "convolution", "inputs": ["data"], "filters": 4, "window": [2, 3, 3]},
        {"name": "pool", "op": "pooling", "inputs": ["conv"], "kind": "average", "window": [2, 2],
         "stride": [2, 2]},
        {"name": "drop", "op": "dropout", "inputs": ["pool"], "rate": 0}
  )"),
                   "net.json");
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_THAT(Listing(*graph),
              ElementsAre("data: input 2x2x8x9x9()", "conv: convolution 2x4x7x7x7(data)",
                          "pool: pooling 2x4x7x3x3(conv)", "drop: dropout 2x4x7x3x3(pool)"));
  EXPECT_TRUE(std::get<Convolution>(graph->nodes[1].op).bias);
  EXPECT_EQ(std::get<Dropout>(graph->nodes[3].op).rate, 0);
}

TEST(NetJson, DropoutSaysWhatIsKeptAsAWhole) {
  const auto graph =
      ParseNetJson(Document(kData + R"(, {"name": "e", "op": "dropout", "inputs": ["data"]},
        {"name": "c", "op": "dropout", "inputs": ["e"], "per": "channel"},
        {"name": "i", "op": "dropout", "inputs": ["c"], "rate": 0.25, "per": "image"})"),
                   "net.json");
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_EQ(std::get<Dropout>(graph->nodes[1].op).per, DropoutUnit::kElement);
  EXPECT_EQ(std::get<Dropout>(graph->nodes[2].op).per, DropoutUnit::kChannel);
  EXPECT_EQ(std::get<Dropout>(graph->nodes[3].op).per, DropoutUnit::kImage);
  EXPECT_EQ(WriteNetJson(*ParseNetJson(WriteNetJson(*graph), "again")), WriteNetJson(*graph));
  EXPECT_THAT(Refusal(R"({"name": "d", "op": "dropout", "inputs": ["data"], "per": "batch"})"),
              HasSubstr("node 'd': 'per': 'batch'; expected one of element, channel, image"));
}

TEST(NetJson, FeaturesBecomeAnImage) {
  const auto graph = ParseNetJson(
      Document(kData +
               R"(, {"name": "fc", "op": "fully_connected", "inputs": ["data"], "outputs": 243},
        {"name": "map", "op": "reshape", "inputs": ["fc"], "channels": 3, "extents": [9, 9]},
        {"name": "sum", "op": "add", "inputs": ["map", "data"]},
        {"name": "deep", "op": "reshape", "inputs": ["sum"], "channels": 1, "extents": [3, 9, 9]})"),
      "net.json");
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_THAT(Listing(*graph),
              ElementsAre("data: input 2x3x9x9()", "fc: fully_connected 2x243x1x1(data)",
                          "map: reshape 2x3x9x9(fc)", "sum: add 2x3x9x9(map, data)",
                          "deep: reshape 2x1x3x9x9(sum)"));
  EXPECT_EQ(WriteNetJson(*ParseNetJson(WriteNetJson(*graph), "again")), WriteNetJson(*graph));
  EXPECT_EQ(Refusal(R"({"name": "r", "op": "reshape", "inputs": ["data"], "channels": 3})"),
            "net.json: node 'r': 'extents': missing; expected [h, w] or [d, h, w]");
}

TEST(NetJson, NormalizationsOfGroupsAndLossesComeBack) {
  const auto graph = ParseNetJson(
      Document(kData +
               R"(, {"name": "g", "op": "group_normalization", "inputs": ["data"], "groups": 3},
        {"name": "l", "op": "group_normalization", "inputs": ["g"], "by_position": true,
         "scale_and_shift": false},
        {"name": "e", "op": "cross_entropy", "inputs": ["l"]},
        {"name": "b", "op": "logistic_loss", "inputs": ["l"]})"),
      "net.json");
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_THAT(Listing(*graph),
              ElementsAre("data: input 2x3x9x9()", "g: group_normalization 2x3x9x9(data)",
                          "l: group_normalization 2x3x9x9(g)", "e: cross_entropy 2x3x9x9(l)",
                          "b: logistic_loss 2x3x9x9(l)"));
  EXPECT_EQ(*ParameterCount(*graph), 6);
  EXPECT_EQ(WriteNetJson(*ParseNetJson(WriteNetJson(*graph), "again")), WriteNetJson(*graph));
  EXPECT_THAT(Refusal(R"({"name": "g", "op": "group_normalization", "inputs": ["data"],
                          "groups": 2})"),
              HasSubstr("2 groups; expected a divisor of 3 channels"));
}

TEST(NetJsonRefusal, NamesFileNodeAndMember) {
  EXPECT_EQ(Refusal(R"({"name": "c", "op": "convolution", "inputs": ["data"], "window": [1, 1]})"),
            "net.json: node 'c': 'filters': missing; expected a whole number");
  EXPECT_EQ(Refusal(R"({"name": "c", "op": "upsampling", "inputs": ["data"], "factor": [2]})"),
            "net.json: node 'c': 'factor': an array of 1; expected [h, w] or [d, h, w], whole "
            "numbers");
  EXPECT_THAT(Refusal(R"({"name": "c", "op": "activation", "inputs": ["data"], "kind": "mish"})"),
              HasSubstr("node 'c': 'kind': 'mish'; expected one of relu, sigmoid, "));
  EXPECT_EQ(Refusal(R"({"name": "c", "op": "softmax", "inputs": ["data"], "axis": 1})"),
            "net.json: node 'c': 'axis': no member of this operator");
  EXPECT_THAT(Refusal(R"({"name": "c", "op": "conv", "inputs": ["data"]})"),
              HasSubstr("'op': 'conv'; expected one of input, convolution"));
  EXPECT_THAT(Refusal(R"({"name": "c", "op": "concat", "inputs": "data"})"),
              HasSubstr("'inputs': 'data'; expected an array of names"));
  EXPECT_THAT(Refusal(R"({"name": "f", "op": "fully_connected", "inputs": ["data"],
                          "outputs": 4294967296})"),
              HasSubstr("'outputs': 4294967296; expected a whole number"));
  EXPECT_THAT(Refusal(R"({"op": "concat"})"), HasSubstr("node 2: 'name': missing"));
  EXPECT_EQ(Refusal(R"({"name": "c", "op": "convolution", "inputs": ["data"], "filters": 1,
                        "window": [10, 1]})"),
            "net.json: node 'c': a window of 10 over an image of 9 padded by 0; expected one that "
            "fits inside");
}

TEST(NetJsonRefusal, ACycleIsAnInputThatIsNotThereYet) {
  EXPECT_EQ(Refusal(R"({"name": "a", "op": "add", "inputs": ["data", "b"]},
                       {"name": "b", "op": "softmax", "inputs": ["a"]})"),
            "net.json: node 'a': input 'b'; expected a node before it (a graph has no cycles)");
}

TEST(NetJsonRefusal, OtherDocuments) {
  EXPECT_THAT(ParseNetJson("{", "x.json").message(), HasSubstr("x.json: no JSON at byte"));
  EXPECT_EQ(ParseNetJson("[]", "x.json").message(),
            "x.json: 'format': missing; expected 'ucudnn-net'");
  EXPECT_EQ(ParseNetJson(R"({"format": "ucudnn-net", "version": 2})", "x.json").message(),
            "x.json: 'version': 2; expected 1");
  EXPECT_EQ(ParseNetJson(Document(""), "x.json").message(),
            "x.json: 'nodes': expected one or more");
}

}  // namespace
}  // namespace ucudnn::planner
