// Tests constants of ONNX files: the extents and values that operators compute, and the number of
// the file's elements from which the values come.
#include "planner/graph/formats/onnx_constants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/graph/formats/onnx_folding.h"
#include "planner/graph/shapes.h"
#include "unit/planner/onnx_model.h"

namespace ucudnn::planner {
namespace {

using Dims = std::vector<int64_t>;

// Returns a constant of a file, with the floats 0, 1, 2, ...
OnnxConstant Floats(const Dims& dims) {
  onnx::TensorProto proto;
  proto.set_data_type(1);
  int64_t count = 1;
  for (const int64_t dim : dims) {
    proto.add_dims(dim);
    count *= dim;
  }
  for (int64_t at = 0; at < count; ++at) proto.add_float_data(static_cast<float>(at));
  return ReadConstant(proto, 7);
}

OnnxConstant Integers(const Dims& values) {
  onnx::TensorProto proto;
  proto.set_data_type(7);
  proto.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) proto.add_int64_data(value);
  return ReadConstant(proto, 8);
}

struct Attribute {
  const char* name;
  Dims values;
};

std::vector<OnnxConstant> Fold(const std::string& type, const std::vector<OnnxConstant>& inputs,
                               const std::vector<Attribute>& attributes = {},
                               const std::string& equation = "", int outputs = 1) {
  onnx::NodeProto node;
  node.set_op_type(type);
  for (size_t at = 0; at < inputs.size(); ++at) node.add_input("i" + std::to_string(at));
  for (int at = 0; at < outputs; ++at) node.add_output("o" + std::to_string(at));
  for (const auto& [name, values] : attributes) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_i(values.front());
    for (const int64_t value : values) attribute->add_ints(value);
  }
  if (!equation.empty()) {
    node.add_attribute()->set_name("equation");
    node.mutable_attribute(node.attribute_size() - 1)->set_s(equation);
  }
  std::vector<const OnnxConstant*> pointers;
  for (const OnnxConstant& input : inputs) pointers.push_back(&input);
  return FoldConstants(node, pointers, 18);
}

struct Case {
  const char* type;
  std::vector<OnnxConstant> inputs;
  std::vector<Attribute> attributes;
  Dims dims;
  int64_t numbers;             // upper bound on the number of the file's elements that the values
                               // come from
  std::vector<double> values;  // empty if FoldConstants does not compute them
  const char* equation = "";
};

TEST(OnnxConstants, EachOperatorHasItsRule) {
  const std::vector<Case> cases = {
      {"Add", {Floats({2, 1}), Floats({3})}, {}, {2, 3}, 6, {0, 1, 2, 1, 2, 3}},
      {"Cast", {Floats({2})}, {{"to", {7}}}, {2}, 2, {0, 1}},
      {"Clip", {Floats({3}), Integers({1})}, {}, {3}, 3, {1, 1, 2}},
      {"Clip", {Floats({3}), Floats({1}), Floats({1})}, {}, {3}, 3, {0, 0, 0}},
      {"Concat", {Floats({2, 1}), Floats({2, 2})}, {{"axis", {1}}}, {2, 3}, 6, {0, 0, 1, 1, 2, 3}},
      {"ConstantOfShape", {Integers({2, 3})}, {}, {2, 3}, 0, {0, 0, 0, 0, 0, 0}},
      {"Einsum", {Floats({2, 3}), Floats({4, 3})}, {}, {4, 2}, 8, {}, "ij,kj->ki"},
      {"Expand",
       {Floats({2, 1}), Integers({3, 1, 2})},
       {},
       {3, 2, 2},
       2,
       {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1}},
      {"Flatten", {Floats({2, 1, 3})}, {{"axis", {2}}}, {2, 3}, 6, {0, 1, 2, 3, 4, 5}},
      {"Gather", {Floats({3, 2}), Integers({-1, 0, 0})}, {}, {3, 2}, 6, {4, 5, 0, 1, 0, 1}},
      {"GatherND", {Floats({3, 2}), Floats({5, 1})}, {}, {5, 2}, 6, {}},
      {"GatherND", {Floats({3, 2}), Floats({4, 2})}, {}, {4}, 4, {}},
      {"Gemm", {Floats({2, 3}), Floats({4, 3})}, {{"transB", {1}}}, {2, 4}, 8, {}},
      {"MatMul", {Floats({5, 2, 3}), Floats({3, 4})}, {}, {5, 2, 4}, 40, {}},
      {"MatMul", {Floats({3}), Floats({3, 4})}, {}, {4}, 4, {}},
      {"Pad", {Floats({2, 2}), Integers({0, 1, 0, 2})}, {}, {2, 5}, 4, {}},
      {"OneHot", {Integers({0, 1}), Integers({3}), Floats({2})}, {}, {2, 3}, 6, {}},
      {"Range", {Floats({}), Integers({3}), Integers({1})}, {}, {3}, 0, {0, 1, 2}},
      {"ReduceMax", {Floats({2, 3}), Integers({1})}, {{"keepdims", {0}}}, {2}, 2, {2, 5}},
      {"Reshape", {Floats({2, 3}), Integers({0, 1, -1})}, {}, {2, 1, 3}, 6, {0, 1, 2, 3, 4, 5}},
      {"Slice",
       {Floats({5}), Integers({-1}), Integers({-9}), Integers({0}), Integers({-2})},
       {},
       {3},
       3,
       {4, 2, 0}},
      {"Squeeze", {Floats({1, 2, 1}), Integers({-1})}, {}, {1, 2}, 2, {0, 1}},
      {"Tile", {Floats({2}), Integers({2})}, {}, {4}, 2, {0, 1, 0, 1}},
      {"Transpose", {Floats({2, 3})}, {{"perm", {1, 0}}}, {3, 2}, 6, {0, 3, 1, 4, 2, 5}},
      {"Unsqueeze", {Floats({2}), Integers({0, -1})}, {}, {1, 2, 1}, 2, {0, 1}},
      {"Where", {Integers({1, 0}), Floats({3, 1}), Floats({2})}, {}, {3, 2}, 6, {0, 1, 1, 1, 2, 1}},
  };
  for (const auto& [type, inputs, attributes, dims, numbers, values, equation] : cases) {
    const OnnxConstant made = Fold(type, inputs, attributes, equation)[0];
    EXPECT_TRUE(made.is_known) << type;
    EXPECT_EQ(made.dims, dims) << type;
    EXPECT_EQ(made.numbers, numbers) << type;
    EXPECT_EQ(made.values.value_or(std::vector<double>()), values) << type;
  }
  const std::vector<OnnxConstant> parts =
      Fold("Split", {Floats({5})}, {{"num_outputs", {2}}}, "", 2);
  EXPECT_EQ(parts[0].dims, Dims{3});
  EXPECT_EQ(parts[1].values, (std::vector<double>{3, 4}));
}

TEST(OnnxConstants, WhatDoesNotFitIsUnknown) {
  const OnnxConstant huge = Floats({});
  const int64_t large = int64_t{1} << 40;
  const std::vector<Case> cases = {
      {"Add", {Floats({2}), Floats({3})}, {}, {}, 0, {}},
      {"Concat", {Floats({2}), Floats({2, 2})}, {}, {}, 0, {}},
      {"ConstantOfShape", {Integers({large, large})}, {}, {}, 0, {}},
      {"ConstantOfShape", {Integers({0, large, large})}, {}, {}, 0, {}},
      {"ConstantOfShape", {Integers(Dims(17, 1))}, {}, {}, 0, {}},
      {"Einsum", {Floats({2, 3})}, {}, {}, 0, {}, "...j->..."},
      {"Expand", {Floats({2}), Integers({3})}, {}, {}, 0, {}},
      {"Expand", {huge, Integers({large, -1, large})}, {}, {}, 0, {}},
      {"Flatten", {Floats({2})}, {{"axis", {3}}}, {}, 0, {}},
      {"GatherND", {Floats({2}), Floats({3, 2})}, {}, {}, 0, {}},
      {"MatMul", {Floats({2, 3}), Floats({2, 3})}, {}, {}, 0, {}},
      {"Pad", {Floats({2}), Integers({std::numeric_limits<int64_t>::min(), 0})}, {}, {}, 0, {}},
      {"Range", {huge, Integers({1}), Integers({0})}, {}, {}, 0, {}},
      {"Reshape", {Floats({6}), Integers({4, -1})}, {}, {}, 0, {}},
      {"Slice",
       {Floats({5}), Integers({0}), Integers({5}), Integers({0}), Integers({0})},
       {},
       {},
       0,
       {}},
      {"Tile", {Floats({2}), Integers({std::numeric_limits<int64_t>::max()})}, {}, {}, 0, {}},
      {"TopK", {Floats({2})}, {}, {}, 0, {}},
      {"Transpose", {Floats({})}, {{"perm", {0}}}, {}, 0, {}},
      {"Transpose", {Floats({2, 3})}, {{"perm", {0, 0}}}, {}, 0, {}}};
  for (const auto& [type, inputs, attributes, dims, numbers, values, equation] : cases) {
    EXPECT_FALSE(Fold(type, inputs, attributes, equation)[0].is_known) << type;
  }
}

TEST(OnnxConstants, NumbersAreRoundedAsTheirTypeHasThem) {
  onnx::TensorProto scale;
  scale.set_data_type(1);
  scale.add_float_data(1.6153846F);  // a little less than 21 / 13
  const auto scaled = [&](int64_t type) {
    const auto as = [&](const OnnxConstant& of) { return Fold("Cast", {of}, {{"to", {type}}})[0]; };
    const auto product = Fold("Mul", {as(Integers({13})), as(ReadConstant(scale, 0))})[0];
    return (*Fold("Floor", {product})[0].values)[0];
  };
  EXPECT_EQ(scaled(1), 21);
  EXPECT_EQ(scaled(11), 20);  // in double precision the product is 20.99...
  EXPECT_EQ(scaled(10), 21);
}

TEST(OnnxConstants, NumbersThatCountUpAreKnownWhateverTheBatch) {
  const OnnxConstant images =
      Fold("Range", {Integers({0}), Integers({1'000'003}), Integers({1})})[0];
  EXPECT_TRUE(CountsUp(images));
  const OnnxConstant starts = Fold("Mul", {Integers({3}), images})[0];
  EXPECT_FALSE(CountsUp(starts));
  const OnnxConstant column = Fold("Unsqueeze", {starts, Integers({1})})[0];
  EXPECT_TRUE(CountsUp(Fold("Add", {column, Integers({0, 1, 2})})[0]));
  EXPECT_FALSE(CountsUp(Fold("Add", {column, Integers({0, 2, 1})})[0]));
  EXPECT_FALSE(CountsUp(Fold("Add", {column, Integers({1, 2, 3})})[0]));
  EXPECT_FALSE(CountsUp(Fold("Sub", {column, Integers({0, 1, 2})})[0]));
  EXPECT_TRUE(CountsUp(Integers({0, 1, 2, 3})));
}

// The numbers of a tensor count once even if two layers read it, also if one reads it transposed.
TEST(OnnxConstants, ATensorThatSeveralLayersReadCountsOnce) {
  OnnxModel named({4});
  named.Weight("w", {4, 4}).Node("MatMul", {"x", "w"}, "a").Node("MatMul", {"a", "w"}, "y");
  OnnxModel turned({4});
  turned.Weight("w", {4, 4}).Node("MatMul", {"x", "w"}, "a").Node("Transpose", {"w"}, "t");
  turned.Node("Identity", {"t"}, "same").Node("MatMul", {"a", "same"}, "y");
  OnnxModel apart({4});
  apart.Weight("w", {4, 4}).Weight("v", {4, 4}).Node("MatMul", {"x", "w"}, "a");
  apart.Node("MatMul", {"a", "v"}, "y");
  const struct {
    const OnnxModel& model;
    int64_t second;
  } kCases[] = {{named, 0}, {turned, 0}, {apart, 16}};
  for (const auto& [model, second] : kCases) {
    const Graph graph = *model.Import();
    const auto own = OwnParameters(graph, *InferShapes(graph, 1));
    ASSERT_EQ(own.size(), 3u);
    EXPECT_EQ(own[1].trained, 16);
    EXPECT_EQ(own[2].trained, second);
    EXPECT_EQ(*ParameterCount(graph), 16 + second);
  }
}

}  // namespace
}  // namespace ucudnn::planner
