// Builds small ONNX models for tests of the reader. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "onnx.pb.h"
#include "planner/graph/formats/onnx.h"
#include "unit/planner/imports.h"

namespace ucudnn::planner {

// An ONNX model, to which tests add nodes. Its input x is an image with 4 channels and 8 x 8
// pixels, unless the test gives other extents.
class OnnxModel {
 public:
  explicit OnnxModel(const std::vector<int64_t>& extents = {4, 8, 8},
                     const std::string& batch = "N") {
    auto* input = graph().add_input();
    input->set_name("x");
    auto* shape = input->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->add_dim()->set_dim_param(batch);
    for (const int64_t extent : extents) shape->add_dim()->set_dim_value(extent);
  }

  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  // Adds a node with the name of its output.
  OnnxModel& Node(const std::string& type, const std::vector<std::string>& inputs,
                  const std::string& output) {
    node_ = graph().add_node();
    node_->set_op_type(type);
    node_->set_name(output);
    for (const std::string& input : inputs) node_->add_input(input);
    node_->add_output(output);
    return *this;
  }
  // With, WithReal and WithText add an attribute to the last node.
  OnnxModel& With(const std::string& name, const std::vector<int64_t>& values) {
    auto* attribute = node_->add_attribute();
    attribute->set_name(name);
    attribute->set_i(values.front());
    for (const int64_t value : values) attribute->add_ints(value);
    return *this;
  }
  OnnxModel& WithReal(const std::string& name, float value) {
    auto* attribute = node_->add_attribute();
    attribute->set_name(name);
    attribute->set_f(value);
    return *this;
  }
  OnnxModel& WithText(const std::string& name, const std::string& text) {
    auto* attribute = node_->add_attribute();
    attribute->set_name(name);
    attribute->set_s(text);
    return *this;
  }
  // Weight adds a constant without values, Numbers a constant of integers.
  OnnxModel& Weight(const std::string& name, const std::vector<int64_t>& dims) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(1);
    for (const int64_t dim : dims) tensor->add_dims(dim);
    return *this;
  }
  OnnxModel& Numbers(const std::string& name, const std::vector<int64_t>& values) {
    Weight(name, {static_cast<int64_t>(values.size())});
    auto* tensor = graph().mutable_initializer(graph().initializer_size() - 1);
    tensor->set_data_type(7);
    for (const int64_t value : values) tensor->add_int64_data(value);
    return *this;
  }

  // Adds another output to the last node.
  OnnxModel& And(const std::string& output) {
    node_->add_output(output);
    return *this;
  }
  OnnxModel& Opset(int64_t version) {
    model_.add_opset_import()->set_version(version);
    return *this;
  }
  // Declares an output of the file.
  OnnxModel& Output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }

  Result<Graph> Import(const ImportOptions& options = {}) const {
    return ImportOnnx(model_.SerializeAsString(), "net.onnx", options);
  }
  // Returns the listing of the imported graph without the input. If the import fails, returns its
  // error.
  std::vector<std::string> Nodes() const {
    const auto graph = Import();
    if (!graph.ok()) return {graph.message()};
    std::vector<std::string> nodes = Listing(*graph);
    nodes.erase(nodes.begin());
    return nodes;
  }

 private:
  onnx::ModelProto model_;
  onnx::NodeProto* node_ = nullptr;
};

inline std::string Refusal(const OnnxModel& model) { return model.Import().message(); }

}  // namespace ucudnn::planner
