// Turns one ONNX model into a graph. Only ImportOnnx() uses it. Its parts are onnx.cpp (the walk,
// and helpers for every operator), onnx_layers.cpp (layers), onnx_elements.cpp (operators that
// compute element by element or over some axes), onnx_axes.cpp (operators that move axes and edges)
// and onnx_products.cpp (matrix products and attentions).
//
// A tensor is a node and a view of it (view.h). An operator asks for a view that it can follow: an
// image in the graph's own axes, whole channels in the last axis, and so on. If it cannot follow
// the view, it becomes an Opaque operator that is divided along the images. If not even the images
// stay separate, it is refused.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/formats/onnx_attributes.h"
#include "planner/graph/formats/onnx_constants.h"
#include "planner/graph/formats/onnx_extents.h"
#include "planner/graph/formats/onnx_folding.h"
#include "planner/graph/formats/view.h"

namespace ucudnn::planner {

// Stands for a batch of any size. It is a prime above the usual extents of networks, so that its
// multiples differ from other extents.
constexpr int64_t kAnyBatch = 1'000'003;

// Larger tensors are refused.
constexpr int64_t kLargestBatch = std::numeric_limits<int32_t>::max();
constexpr size_t kMostAxes = 16;

// The only image of a batch whose axis is gone. It stands in front of the digits of another axis.
constexpr Digit kParked = {ViewAxis::kBatch, 1, 0};

// The output of a node of the file. Every digit of the graph's node occurs once in the view.
struct OnnxTensor {
  NodeId node = 0;
  View view;
  // Nothing else reads the node, so that the next node may complete its operator.
  bool is_sole = false;
  int scores = -1;  // position in OnnxImporter::scores_, for products of queries and keys
};

// Scores that wait for the values they weight. They are no node, because an attention computes
// them. Each tensor of scores has its own entry: a bias or a softmax makes other scores of the same
// product.
struct OnnxScores {
  int product = 0;  // position of the product itself in OnnxImporter::scores_
  NodeId queries = 0;
  NodeId keys = 0;
  std::string name;
  std::vector<Parameter> parameters;  // parameters of biases and masks
  bool is_weight = false;             // a softmax over the keys was taken
};

// Fails, naming `what`, if a number of the file has more than 32 bits.
Result<int32_t> Narrow(int64_t number, const std::string& what);

class OnnxImporter {
 public:
  OnnxImporter(const std::string& file, const ImportOptions& options)
      : file_(file), options_(options), graph_(file, options) {}

  Result<Graph> Import(const onnx::ModelProto& model, ImportedTensors* tensors);

 private:
  using Member = Status (OnnxImporter::*)();
  static const std::map<std::string, Member>& Members();

  // The walk, in onnx.cpp.
  void ReadNames(const onnx::GraphProto& graph);
  // Finds inputs that are transposed to channels first before any node depends on their axes, as
  // tf2onnx leaves inputs of TensorFlow, and inputs of three axes that are sequences of tokens.
  void FindLayouts(const onnx::GraphProto& graph);
  Status AddNode();
  bool Fold();
  using ConstantsByName = std::map<std::string, OnnxConstant>;
  // Notes a constant. Forgets all values if there are too many.
  void Keep(const std::string& name, OnnxConstant constant) { Keep(constants_, name, constant); }
  void Keep(ConstantsByName& among, const std::string& name, OnnxConstant constant);
  Result<OnnxTensor> AddInput(const std::string& name, const onnx::ValueInfoProto& info);
  Status AddShape();

  std::string FirstOutput() const { return node_->output_size() > 0 ? node_->output(0) : ""; }
  OnnxAttributes Attributes() const { return OnnxAttributes(*node_); }
  bool HasInput(int index) const;
  // Returns null if the input is absent or computed.
  const OnnxConstant* ConstantInput(int index) const;
  // Returns the constant of a layer's weights, which may be graph inputs that no initializer fills.
  const OnnxConstant* WeightInput(int index);
  // Returns the constants by input; null if computed.
  std::vector<const OnnxConstant*> Constants() const;
  // Returns the Constants() for kAnyBatch images; empty if none of them depends on the images.
  std::vector<const OnnxConstant*> ConstantsAtAnyBatch() const;
  std::optional<std::vector<int64_t>> List(int input, const std::string& attribute) const;
  // Returns the trained numbers of a constant. Single numbers, repeated numbers and integers are
  // not trained.
  static std::vector<Parameter> Trained(const OnnxConstant& constant);
  // Returns Trained(), or one tensor without elements if nothing is trained, because the operator
  // would otherwise count its own weights.
  static std::vector<Parameter> Weight(const OnnxConstant& constant);

  // Returns the tensor that a node reads; turns scores into a node.
  Result<OnnxTensor> TensorInput(int index);
  // Returns the tensor that a node reads; leaves scores as they are.
  Result<OnnxTensor> RawInput(int index);
  Result<OnnxTensor> NodeOfScores(const OnnxTensor& tensor);
  const OnnxScores& ScoresOf(const OnnxTensor& tensor) const {
    return scores_[static_cast<size_t>(tensor.scores)];
  }
  // Makes `tensor` the node's output, with these scores.
  Status GiveAsScores(OnnxTensor tensor, OnnxScores scores);

  NodeExtents ExtentsOf(const OnnxTensor& tensor) const {
    return planner::ExtentsOf(graph_.ShapeOf(tensor.node), batch_);
  }
  Result<NodeId> AddOperator(const Operator& op, const std::vector<NodeId>& inputs,
                             std::vector<Parameter> parameters = {}, int output = 0);
  // Makes another view of an existing operator the output.
  Status Give(OnnxTensor tensor, int output = 0);
  // Makes a new node the output.
  Status GiveNode(NodeId node, View view, int output = 0);
  // Adds a new node behind `tensor` with the same extents.
  Status Append(const Operator& op, const OnnxTensor& tensor,
                std::vector<Parameter> parameters = {});
  Status AddNothing();
  // Lists the operator as unsupported, and goes on with its first input that is no constant.
  Status Refuse(const std::string& why);
  Status RefuseUnknown() { return Refuse(""); }
  Status RefuseMixedImages() { return Refuse("that mixes images"); }

  // Returns whether an operator that mixes the positions of an axis mixes images. It does not if an
  // exporter put the only image of its batch beside other digits.
  bool MixesImages(const Digits& digits) const {
    return Holds(digits, ViewAxis::kBatch) && (batch_ > 1 || digits.size() == 1);
  }
  // Returns the position of the axis that holds all images and nothing else; none if the images are
  // divided.
  std::optional<size_t> BatchAxis(const OnnxTensor& tensor) const;
  // Returns the tensor in the graph's own axes: batch, channels and at most three axes of images.
  Result<std::optional<OnnxTensor>> Image(const OnnxTensor& tensor);
  // Returns an Opaque operator that replaces the input's extents by `changed`, a map by axis, and
  // mixes the positions of these axes; none if these axes hold the images.
  Result<std::optional<OnnxTensor>> Changed(const std::string& kind, const OnnxTensor& tensor,
                                            const std::map<size_t, int64_t>& changed,
                                            const std::vector<NodeId>& others, double operations,
                                            std::vector<Parameter> parameters = {});
  Status AddChanged(const OnnxTensor& tensor, const std::map<size_t, int64_t>& changed,
                    double operations = 0, std::vector<Parameter> parameters = {});

  // Layers, in onnx_layers.cpp.
  struct Sliding {
    Spatial stride;
    Spatial pad;
    Spatial end_pad;
    Spatial dilation;
  };
  Result<Sliding> ReadSliding(const OnnxTensor& tensor, const Spatial& extents) const;
  // Pads so that the output is the input divided by the stride. An odd pixel goes to the end, or to
  // the beginning if `lower` is set.
  Status PadToSame(const OnnxTensor& tensor, const Spatial& extents, bool lower,
                   Sliding& sliding) const;
  // Cuts a transposed convolution by `total` pixels along `axis`. An odd pixel is cut at the
  // beginning if `lower` is set, else at the end.
  static Status CutTransposed(size_t axis, int64_t total, bool lower, TransposedConvolution& layer);
  static Result<Spatial> Difference(const Spatial& a, const Spatial& b);
  // The filter and the bias. Fails if one of them is computed; the error names it.
  struct Weights {
    const OnnxConstant* filter = nullptr;
    bool bias = false;
    std::vector<Parameter> parameters;
  };
  Result<std::optional<Weights>> ReadWeights(size_t rank);
  Status AddConvolution();
  Status AddTransposedConvolution();
  Status ReadTransposedExtents(const OnnxTensor& image, TransposedConvolution& layer) const;
  Status AddPooling();
  Status AddLrn();
  Status AddBatchNormalization();
  Status AddDropout();
  Status AddResize();
  Status AddDepthToSpace();

  // Operators that compute element by element or over some axes, in onnx_elements.cpp.
  Status AddActivation();
  Status AddElementwise();
  Status AddWithConstants(const OnnxTensor& tensor);
  Status AddOfTensors(const std::string& type, std::vector<OnnxTensor> tensors,
                      const std::vector<const OnnxConstant*>& constants);
  // Makes the constant the layer's bias and returns true if the constant is one number per channel
  // and nothing else reads the layer.
  bool CompletesLayer(const OnnxTensor& tensor, const OnnxConstant& constant,
                      const std::vector<Parameter>& parameters);
  bool IsGateOf(const OnnxTensor& gate, const OnnxTensor& input);
  // Returns the tensor with the extents `extents`, where some of its extents may be 1.
  Result<std::optional<OnnxTensor>> Grown(OnnxTensor tensor, const std::vector<int64_t>& extents);
  // Returns `tensor` as a node with the digits of `like` along the axes that it has; none if images
  // meet other digits.
  Result<std::optional<OnnxTensor>> Conformed(const OnnxTensor& tensor, const OnnxTensor& like);
  Status AddReduction();
  Status AddGlobalPooling();
  Status AddSoftmax();
  Status AddNormalization();
  // Mixes the positions of these axes; keeps the extents.
  Status AddMixing(const OnnxTensor& tensor, const std::vector<size_t>& axes,
                   std::vector<Parameter> parameters);

  // Operators that only move axes and edges, in onnx_axes.cpp.
  Status AddTranspose();
  Status AddFlatten();
  Status AddReshape();
  Status GiveReshaped(const OnnxTensor& tensor, const std::vector<int64_t>& extents);
  Status AddSqueeze();
  Status AddUnsqueeze();
  Status AddExpand();
  Status AddTile();
  Status AddPad();
  Status AddSlice();
  Status AddSplit();
  Status AddGather();
  Status AddLookup(const OnnxConstant& table);
  Status AddConcat();
  // Takes a range of an axis by a node that cuts off the rest. Returns none if the images are in
  // the axis or the range is not a range of one digit.
  Result<std::optional<OnnxTensor>> Sliced(const OnnxTensor& tensor, size_t axis, int64_t begin,
                                           int64_t count, int output = 0);
  // Returns the tensor with the positions of an axis that holds the whole image as one row.
  Result<std::optional<OnnxTensor>> AsRow(const OnnxTensor& tensor, size_t axis);
  // Returns the Roll that joins two ranges of one tensor, the last range first; none if the parts
  // are no such ranges.
  std::optional<OnnxTensor> Rolled(const std::vector<OnnxTensor>& parts, size_t axis);

  // Products, in onnx_products.cpp.
  Status AddGemm();
  Status AddMatMul();
  // Adds tensor x weights over the last axis. If `transposed` is set, the weights have the outputs
  // first.
  Status AddLinear(OnnxTensor tensor, const OnnxConstant& weights, bool transposed, bool bias,
                   std::vector<Parameter> parameters, bool swaps_axes);
  // Adds a product with one matrix for each position of the leading axes.
  Status AddMatrices(OnnxTensor tensor, const OnnxConstant& matrices, bool is_first);
  Status AddProductOfTensors(const OnnxTensor& a, const OnnxTensor& b);
  bool AreScores(const OnnxTensor& a, const OnnxTensor& b) const;
  Status GiveScores(const OnnxTensor& a, const OnnxTensor& b);
  Result<bool> AddAttention(const OnnxTensor& weights, const OnnxTensor& values);

  const std::string file_;
  const ImportOptions options_;
  ImportedGraph graph_;
  int64_t opset_ = 0;
  int64_t batch_ = 1;
  std::map<std::string, const onnx::ValueInfoProto*> inputs_;
  std::set<std::string> channels_last_;   // names in inputs_
  std::set<std::string> channels_first_;  // names in inputs_, with three axes
  std::map<std::string, int> readers_;    // number of nodes and graph outputs that read each tensor
  ConstantsByName constants_;
  // If the file has one image, holds each constant of constants_ that depends on the number of
  // images, computed for kAnyBatch images. It tells which 1 in a shape counts the images.
  ConstantsByName constants_at_any_batch_;
  std::map<std::string, OnnxTensor> tensors_;
  std::vector<OnnxScores> scores_;
  std::map<NodeId, std::vector<std::string>> names_;  // names in tensors_, by node
  int next_tensor_ = 0;
  int64_t kept_values_ = 0;  // values of constants that have no bytes in the file, by their cost
  const onnx::NodeProto no_node_;
  const onnx::NodeProto* node_ = &no_node_;  // node being added
  NodeId first_node_ = 0;                    // first node of the graph that node_ may have added
};

}  // namespace ucudnn::planner
