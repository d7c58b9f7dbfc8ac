// One ONNX model on its way into a graph. Used by ImportOnnx() only; its parts are in onnx.cpp (the
// walk, and what every operator needs), onnx_layers.cpp (what computes), onnx_elements.cpp (what
// computes element by element or over some axes), onnx_axes.cpp (what moves axes and edges) and
// onnx_products.cpp (matrix products and attentions).
//
// A tensor is a node and a view of it (view.h). An operator asks for the view it can follow:
// an image in the graph's own axes, whole channels in the last axis, and so on. Where it cannot
// follow, it becomes an Opaque operator that is divided along the images; where not even these stay
// apart, it is refused.
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

// A batch of any size. A prime above what networks have otherwise, so that its multiples are told
// from other extents.
constexpr int64_t kAnyBatch = 1'000'003;

// Beyond these sizes a tensor is refused.
constexpr int64_t kLargestBatch = std::numeric_limits<int32_t>::max();
constexpr size_t kMostAxes = 16;

// The only image of a batch whose axis is gone, in front of the digits of another axis.
constexpr Digit kParked = {ViewAxis::kBatch, 1, 0};

// What a node of the file gives. Every digit of the graph's node is in the view once.
struct OnnxTensor {
  NodeId node = 0;
  View view;
  bool is_sole = false;  // nothing else reads the node: what follows may complete its operator
  int scores = -1;       // position in OnnxImporter::scores_: products of queries and keys
};

// Scores that wait for the values they weight. They are no node: an attention computes them.
// Each tensor of scores has its own: adding a bias, or taking a softmax, makes other scores of the
// same product.
struct OnnxScores {
  int product = 0;  // position of the product itself in OnnxImporter::scores_
  NodeId queries = 0;
  NodeId keys = 0;
  std::string name;
  std::vector<Parameter> parameters;  // of biases and masks
  bool is_weight = false;             // a softmax over the keys was taken
};

// An error names `what` where a number of the file has more than 32 bits.
Result<int32_t> Narrow(int64_t number, const std::string& what);

class OnnxImporter {
 public:
  OnnxImporter(const std::string& file, const ImportOptions& options)
      : file_(file), options_(options), graph_(file, options) {}

  Result<Graph> Import(const onnx::ModelProto& model, ImportedTensors* tensors);

 private:
  using Member = Status (OnnxImporter::*)();
  static const std::map<std::string, Member>& Members();

  // The walk: onnx.cpp.
  void ReadNames(const onnx::GraphProto& graph);
  // Inputs that are transposed to channels first before anything looks at their axes: as tf2onnx
  // leaves TensorFlow's; and those of three axes that are sequences of tokens.
  void FindLayouts(const onnx::GraphProto& graph);
  Status AddNode();
  bool Fold();
  using ConstantsByName = std::map<std::string, OnnxConstant>;
  // Notes a constant; forgets all values where there are too many.
  void Keep(const std::string& name, OnnxConstant constant) { Keep(constants_, name, constant); }
  void Keep(ConstantsByName& among, const std::string& name, OnnxConstant constant);
  Result<OnnxTensor> AddInput(const std::string& name, const onnx::ValueInfoProto& info);
  Status AddShape();

  std::string FirstOutput() const { return node_->output_size() > 0 ? node_->output(0) : ""; }
  OnnxAttributes Attributes() const { return OnnxAttributes(*node_); }
  bool HasInput(int index) const;
  // Null where the input is absent or computed.
  const OnnxConstant* ConstantInput(int index) const;
  // Of a layer's weights, which may be inputs of the graph that no initializer fills.
  const OnnxConstant* WeightInput(int index);
  // Constants by input; null where computed.
  std::vector<const OnnxConstant*> Constants() const;
  // As Constants() at kAnyBatch images; empty where none of them depends on the images.
  std::vector<const OnnxConstant*> ConstantsAtAnyBatch() const;
  std::optional<std::vector<int64_t>> List(int input, const std::string& attribute) const;
  // The trained numbers of a constant: none of single numbers, repeated ones and integers.
  static std::vector<Parameter> Trained(const OnnxConstant& constant);
  // As Trained; one tensor of no elements where nothing is trained, which the operator would count.
  static std::vector<Parameter> Weight(const OnnxConstant& constant);

  // What a node reads; scores become a node.
  Result<OnnxTensor> TensorInput(int index);
  // Scores stay scores.
  Result<OnnxTensor> RawInput(int index);
  Result<OnnxTensor> NodeOfScores(const OnnxTensor& tensor);
  const OnnxScores& ScoresOf(const OnnxTensor& tensor) const {
    return scores_[static_cast<size_t>(tensor.scores)];
  }
  // Gives `tensor` as these scores.
  Status GiveAsScores(OnnxTensor tensor, OnnxScores scores);

  NodeExtents ExtentsOf(const OnnxTensor& tensor) const {
    return planner::ExtentsOf(graph_.ShapeOf(tensor.node), batch_);
  }
  Result<NodeId> AddOperator(const Operator& op, const std::vector<NodeId>& inputs,
                             std::vector<Parameter> parameters = {}, int output = 0);
  // The output is another view of an operator that is there.
  Status Give(OnnxTensor tensor, int output = 0);
  // The output is a new node.
  Status GiveNode(NodeId node, View view, int output = 0);
  // A new node behind `tensor` with the same extents.
  Status Append(const Operator& op, const OnnxTensor& tensor,
                std::vector<Parameter> parameters = {});
  Status AddNothing();
  // Lists the operator, and goes on with its first input that is no constant.
  Status Refuse(const std::string& why);
  Status RefuseUnknown() { return Refuse(""); }
  Status RefuseMixedImages() { return Refuse("that mixes images"); }

  // Whether an operator that mixes the positions of an axis mixes images: not where an exporter put
  // the only image of its batch beside something else.
  bool MixesImages(const Digits& digits) const {
    return Holds(digits, ViewAxis::kBatch) && (batch_ > 1 || digits.size() == 1);
  }
  // The position of the axis that holds the images whole and nothing else; none: they are divided.
  std::optional<size_t> BatchAxis(const OnnxTensor& tensor) const;
  // The tensor as the graph's own axes batch, channels and those of images: at most three of these.
  Result<std::optional<OnnxTensor>> Image(const OnnxTensor& tensor);
  // An Opaque operator that gives the extents `changed`, by axis, instead of those of its input,
  // and mixes the positions of these axes; nothing where these hold the images.
  Result<std::optional<OnnxTensor>> Changed(const std::string& kind, const OnnxTensor& tensor,
                                            const std::map<size_t, int64_t>& changed,
                                            const std::vector<NodeId>& others, double operations,
                                            std::vector<Parameter> parameters = {});
  Status AddChanged(const OnnxTensor& tensor, const std::map<size_t, int64_t>& changed,
                    double operations = 0, std::vector<Parameter> parameters = {});

  // Layers: onnx_layers.cpp.
  struct Sliding {
    Spatial stride;
    Spatial pad;
    Spatial end_pad;
    Spatial dilation;
  };
  Result<Sliding> ReadSliding(const OnnxTensor& tensor, const Spatial& extents) const;
  // As much as makes the output the input divided by the stride; an odd pixel goes to the end, or
  // to the beginning.
  Status PadToSame(const OnnxTensor& tensor, const Spatial& extents, bool lower,
                   Sliding& sliding) const;
  // A transposed convolution whose output has `wanted` pixels along `axis`.
  static Status CutTransposed(size_t axis, int64_t total, bool lower, TransposedConvolution& layer);
  static Result<Spatial> Difference(const Spatial& a, const Spatial& b);
  // The filter and the bias; an error names what is computed.
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

  // Element by element, and over some axes: onnx_elements.cpp.
  Status AddActivation();
  Status AddElementwise();
  Status AddWithConstants(const OnnxTensor& tensor);
  Status AddOfTensors(const std::string& type, std::vector<OnnxTensor> tensors,
                      const std::vector<const OnnxConstant*>& constants);
  // The layer's bias, where the constant is one number a channel and nobody else reads the layer.
  bool CompletesLayer(const OnnxTensor& tensor, const OnnxConstant& constant,
                      const std::vector<Parameter>& parameters);
  bool IsGateOf(const OnnxTensor& gate, const OnnxTensor& input);
  // The tensor with the extents of `extents`, where some are 1 now.
  Result<std::optional<OnnxTensor>> Grown(OnnxTensor tensor, const std::vector<int64_t>& extents);
  // `tensor` as a node whose digits are those of `like` where it has the axis; nothing where images
  // meet others.
  Result<std::optional<OnnxTensor>> Conformed(const OnnxTensor& tensor, const OnnxTensor& like);
  Status AddReduction();
  Status AddGlobalPooling();
  Status AddSoftmax();
  Status AddNormalization();
  // Over the positions of these axes; keeps the extents.
  Status AddMixing(const OnnxTensor& tensor, const std::vector<size_t>& axes,
                   std::vector<Parameter> parameters);

  // What only moves axes and edges: onnx_axes.cpp.
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
  // A range of an axis, as a node that cuts the rest off; nothing where the images are in the axis
  // or it is no range of one digit.
  Result<std::optional<OnnxTensor>> Sliced(const OnnxTensor& tensor, size_t axis, int64_t begin,
                                           int64_t count, int output = 0);
  // The positions of an axis that holds all of the image as one row.
  Result<std::optional<OnnxTensor>> AsRow(const OnnxTensor& tensor, size_t axis);
  // Two ranges of one tensor, the last one first.
  std::optional<OnnxTensor> Rolled(const std::vector<OnnxTensor>& parts, size_t axis);

  // Products: onnx_products.cpp.
  Status AddGemm();
  Status AddMatMul();
  // tensor x weights over the last axis; `transposed` weights have the outputs first.
  Status AddLinear(OnnxTensor tensor, const OnnxConstant& weights, bool transposed, bool bias,
                   std::vector<Parameter> parameters, bool swaps_axes);
  // A product with a matrix for each of the leading axes.
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
  std::set<std::string> channels_last_;   // of inputs_
  std::set<std::string> channels_first_;  // of inputs_ with three axes
  std::map<std::string, int> readers_;    // nodes and graph outputs, by tensor
  ConstantsByName constants_;
  // Where the file has one image, this map holds each constant of constants_ that depends on the
  // number of images, computed for kAnyBatch images. It tells which 1 of a shape counts the images.
  ConstantsByName constants_at_any_batch_;
  std::map<std::string, OnnxTensor> tensors_;
  std::vector<OnnxScores> scores_;
  std::map<NodeId, std::vector<std::string>> names_;  // in tensors_, by node
  int next_tensor_ = 0;
  int64_t kept_values_ = 0;  // of constants that no bytes of the file stand for, by their cost
  const onnx::NodeProto no_node_;
  const onnx::NodeProto* node_ = &no_node_;  // being added
  NodeId first_node_ = 0;                    // of the graph that it may have added
};

}  // namespace ucudnn::planner
