// Turns one ONNX model into a graph. Only ImportOnnx() uses it. Its functions are in onnx.cpp (the
// loop over nodes, and helpers for all operators), onnx_layers.cpp (layers), onnx_elements.cpp
// (operators that compute element by element or over some axes), onnx_axes.cpp (operators that
// move, cut, repeat, pad, join or select) and onnx_products.cpp (matrix products, scores and
// attentions).
//
// A tensor is a node and a view of it (view.h). The function of an operator checks the view for a
// form that it supports: an image in the graph's own axes, whole channels in the last axis, and so
// on. For another view, the function adds a node that brings the tensor into such a form, or the
// operator becomes an Opaque, which can at least be divided along the images. If not even the
// images stay separate, the operator is refused.
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

// The importer computes with this batch where the batch may have any size. It is a prime number
// above the usual extents of networks, so that only extents that count images are multiples of it.
constexpr int64_t kAnyBatch = 1'000'003;

// The importer refuses a larger batch, and a tensor with more axes.
constexpr int64_t kLargestBatch = std::numeric_limits<int32_t>::max();
constexpr size_t kMostAxes = 16;

// The digit of a batch of 1 whose axis was dropped. It is stored in front of the digits of another
// axis.
constexpr Digit kParked = {ViewAxis::kBatch, 1, 0};

// A tensor of the file. Its view has every digit of the node exactly once, with two exceptions: the
// view of a graph input without axes is empty, and the `node` of scores is the node of the queries.
struct OnnxTensor {
  NodeId node = 0;
  View view;
  // True if one node of the file is the only reader of `node`, so that this reader may complete the
  // operator of `node`.
  bool is_sole = false;
  int scores = -1;  // position in OnnxImporter::scores_; -1 if the tensor holds no scores
};

// Scores (products of queries and keys) whose values are not known yet. Scores get no node of their
// own, because the Attention of queries, keys and values computes them. Each tensor of scores has
// its own entry, because one product may become several tensors by adding biases and by softmaxes.
struct OnnxScores {
  int product = 0;  // position of the plain product in OnnxImporter::scores_
  NodeId queries = 0;
  NodeId keys = 0;
  std::string name;
  std::vector<Parameter> parameters;  // of biases and masks
  bool is_weight = false;             // whether a softmax over the keys was applied
};

// Returns `number` in 32 bits. The error of a larger number names `what`.
Result<int32_t> Narrow(int64_t number, const std::string& what);

class OnnxImporter {
 public:
  OnnxImporter(const std::string& file, const ImportOptions& options)
      : file_(file), options_(options), graph_(file, options) {}

  Result<Graph> Import(const onnx::ModelProto& model, ImportedTensors* tensors);

 private:
  using Member = Status (OnnxImporter::*)();
  static const std::map<std::string, Member>& Members();

  // The loop over nodes, in onnx.cpp.
  void ReadNames(const onnx::GraphProto& graph);
  // Finds inputs in which the channels are not the axis after the batch, before any node depends on
  // their axes. Such inputs are images that the model transposes to channels first, as tf2onnx
  // writes them, and inputs of three axes that are sequences of tokens.
  void FindLayouts(const onnx::GraphProto& graph);
  Status AddNode();
  bool Fold();
  using ConstantsByName = std::map<std::string, OnnxConstant>;
  // Stores a constant. If the stored constants have too many values in total, drops the values of
  // all of them, and of every constant that follows.
  void Keep(const std::string& name, OnnxConstant constant) { Keep(constants_, name, constant); }
  void Keep(ConstantsByName& among, const std::string& name, OnnxConstant constant);
  Result<OnnxTensor> AddInput(const std::string& name, const onnx::ValueInfoProto& info);
  Status AddShape();

  std::string FirstOutput() const { return node_->output_size() > 0 ? node_->output(0) : ""; }
  OnnxAttributes Attributes() const { return OnnxAttributes(*node_); }
  bool HasInput(int index) const;
  // Returns null if the input is absent or computed.
  const OnnxConstant* ConstantInput(int index) const;
  // Returns the constant of a layer's weights. A graph input without an initializer counts as such
  // a constant, too.
  const OnnxConstant* WeightInput(int index);
  // Returns the constants by input; null for a computed input.
  std::vector<const OnnxConstant*> Constants() const;
  // Returns the Constants() for a batch of kAnyBatch images; empty if none of them depends on the
  // batch.
  std::vector<const OnnxConstant*> ConstantsAtAnyBatch() const;
  std::optional<std::vector<int64_t>> List(int input, const std::string& attribute) const;
  // Returns the trained numbers of a constant. Single numbers, repeated numbers and integers do not
  // count as trained.
  static std::vector<Parameter> Trained(const OnnxConstant& constant);
  // Returns Trained(), or one tensor without elements if nothing is trained, because a node without
  // parameters would get its operator's usual parameters.
  static std::vector<Parameter> Weight(const OnnxConstant& constant);

  // Returns the tensor that a node reads; a tensor of scores becomes a node.
  Result<OnnxTensor> TensorInput(int index);
  // Returns the tensor that a node reads, which may be a tensor of scores without a node.
  Result<OnnxTensor> RawInput(int index);
  Result<OnnxTensor> NodeOfScores(const OnnxTensor& tensor);
  const OnnxScores& ScoresOf(const OnnxTensor& tensor) const {
    return scores_[static_cast<size_t>(tensor.scores)];
  }
  // The output of node_ becomes `tensor`, with the scores `scores`.
  Status GiveAsScores(OnnxTensor tensor, OnnxScores scores);

  NodeExtents ExtentsOf(const OnnxTensor& tensor) const {
    return planner::ExtentsOf(graph_.ShapeOf(tensor.node), batch_);
  }
  Result<NodeId> AddOperator(const Operator& op, const std::vector<NodeId>& inputs,
                             std::vector<Parameter> parameters = {}, int output = 0);
  // Output number `output` of node_ becomes `tensor`, which is a view of an existing node.
  Status Give(OnnxTensor tensor, int output = 0);
  // The first output of node_ becomes `view`, which is a view of the new node `node`.
  Status GiveNode(NodeId node, View view) { return Give({node, std::move(view), true}); }
  // The output of node_ becomes a new node that reads `tensor` and has the extents of `tensor`.
  Status Append(const Operator& op, const OnnxTensor& tensor,
                std::vector<Parameter> parameters = {});
  Status AddNothing();
  // Records node_ as unsupported, and continues as if its output were its first computed input.
  Status Refuse(const std::string& why);
  Status RefuseUnknown() { return Refuse(""); }
  Status RefuseMixedImages() { return Refuse("that mixes images"); }

  // Returns whether an operator that mixes the positions of an axis with these digits (view.h)
  // mixes images. A batch of 1 counts as images only if its digit is the only digit of the axis.
  bool MixesImages(const Digits& digits) const {
    return Holds(digits, ViewAxis::kBatch) && (batch_ > 1 || digits.size() == 1);
  }
  // Returns the position of the axis that holds all images and nothing else; none if there is no
  // such axis.
  std::optional<size_t> BatchAxis(const OnnxTensor& tensor) const;
  // Returns the tensor in the graph's own form, with the axes batch, channels and at most three
  // spatial axes; none if it cannot be brought into this form.
  Result<std::optional<OnnxTensor>> Image(const OnnxTensor& tensor);
  // Adds an Opaque operator that gives the axes in `changed` new extents and mixes the positions of
  // these axes. Returns none if one of these axes holds the images.
  Result<std::optional<OnnxTensor>> Changed(const std::string& kind, const OnnxTensor& tensor,
                                            const std::map<size_t, int64_t>& changed,
                                            const std::vector<NodeId>& others, double operations,
                                            std::vector<Parameter> parameters = {});
  Status AddChanged(const OnnxTensor& tensor, const std::map<size_t, int64_t>& changed,
                    double operations = 0, std::vector<Parameter> parameters = {});

  // The functions below add layers; they are in onnx_layers.cpp.
  struct Sliding {
    Spatial stride;
    Spatial pad;
    Spatial end_pad;
    Spatial dilation;
  };
  Result<Sliding> ReadSliding(const OnnxTensor& tensor, const Spatial& extents) const;
  // Sets the pads of ONNX's SAME modes: each output extent becomes the input extent divided by the
  // stride, rounded up. If the pads are odd in total, the additional pixel is at the end, or at the
  // beginning if `lower` is set.
  Status PadToSame(const OnnxTensor& tensor, const Spatial& extents, bool lower,
                   Sliding& sliding) const;
  // Cuts `total` pixels off the output of a transposed convolution along `axis`. If `total` is odd,
  // the additional pixel is cut off at the beginning if `lower` is set, else at the end.
  static Status CutTransposed(size_t axis, int64_t total, bool lower, TransposedConvolution& layer);
  static Result<Spatial> Difference(const Spatial& a, const Spatial& b);
  // The filter and the bias of a layer. ReadWeights() fails if one of them is computed; the error
  // names it.
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

  // The functions below add operators that compute element by element or over some axes; they are
  // in onnx_elements.cpp.
  Status AddActivation();
  Status AddElementwise();
  Status AddWithConstants(const OnnxTensor& tensor);
  Status AddOfTensors(const std::string& type, std::vector<OnnxTensor> tensors,
                      const std::vector<const OnnxConstant*>& constants);
  // If the constant has one number per channel and no other node reads the layer, makes the
  // constant the layer's bias and returns true.
  bool CompletesLayer(const OnnxTensor& tensor, const OnnxConstant& constant,
                      const std::vector<Parameter>& parameters);
  bool IsGateOf(const OnnxTensor& gate, const OnnxTensor& input);
  // Returns the tensor repeated to the extents `extents` along axes of extent 1; none if this would
  // repeat images.
  Result<std::optional<OnnxTensor>> Grown(OnnxTensor tensor, const std::vector<int64_t>& extents);
  // Returns `tensor` with the digits (view.h) of `like` along every axis on which `tensor` has
  // digits; this may need a new node. Returns none if an operator that reads both tensors would
  // combine different images.
  Result<std::optional<OnnxTensor>> Conformed(const OnnxTensor& tensor, const OnnxTensor& like);
  Status AddReduction();
  Status AddGlobalPooling();
  Status AddSoftmax();
  Status AddNormalization();
  // Adds an operator that mixes the positions of the axes `axes` and keeps the extents.
  Status AddMixing(const OnnxTensor& tensor, const std::vector<size_t>& axes,
                   std::vector<Parameter> parameters);

  // The functions below add operators that only move axes, pad or join; they are in onnx_axes.cpp.
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
  // Adds a node that cuts an axis to the range of `count` positions from `begin` on. Returns none
  // if the axis holds images or if no cut of the node gives the range.
  Result<std::optional<OnnxTensor>> Sliced(const OnnxTensor& tensor, size_t axis, int64_t begin,
                                           int64_t count, int output = 0);
  // If `axis` holds exactly all spatial positions of an image, returns the tensor as a node in
  // which these positions are one row. Otherwise returns none.
  Result<std::optional<OnnxTensor>> AsRow(const OnnxTensor& tensor, size_t axis);
  // Returns the Roll that joins two ranges of one tensor, the later range first; none if `parts`
  // are not two such ranges.
  std::optional<OnnxTensor> Rolled(const std::vector<OnnxTensor>& parts, size_t axis);

  // The functions below add products; they are in onnx_products.cpp.
  Status AddGemm();
  Status AddMatMul();
  // Adds the product of a tensor and weights over the tensor's last axis. The weights are [outputs,
  // inputs] if `transposed` is set, otherwise [inputs, outputs].
  Status AddLinear(OnnxTensor tensor, const OnnxConstant& weights, bool transposed, bool bias,
                   std::vector<Parameter> parameters, bool swaps_axes);
  // Adds a product in which each position of the leading axes has its own matrix.
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
  std::set<std::string> channels_last_;  // names in inputs_ of images with channels last
  // Names in inputs_ of three-axis images with channels first.
  std::set<std::string> channels_first_;
  // By tensor: number of nodes and graph outputs that read it.
  std::map<std::string, int> readers_;
  ConstantsByName constants_;
  // If the batch is 1, the constants of constants_ that depend on the batch, computed for kAnyBatch
  // images. They show which 1 in a shape is the number of images.
  ConstantsByName constants_at_any_batch_;
  std::map<std::string, OnnxTensor> tensors_;
  std::vector<OnnxScores> scores_;
  std::map<NodeId, std::vector<std::string>> names_;  // by node: its names in tensors_
  int next_tensor_ = 0;
  int64_t kept_values_ = 0;  // values in constants, each counted 1 + (inputs of its node) times
  const onnx::NodeProto no_node_;
  const onnx::NodeProto* node_ = &no_node_;  // the node of the file that is being added
  NodeId first_node_ = 0;  // nodes of graph_ from this one on were added for node_
};

}  // namespace ucudnn::planner
