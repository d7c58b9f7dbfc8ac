// One ONNX model on its way into a graph. Used by ImportOnnx() only; its parts are in onnx.cpp
// (walk and tensors), onnx_layers.cpp and onnx_axes.cpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/formats/onnx_attributes.h"
#include "planner/graph/formats/onnx_constants.h"

namespace ucudnn::planner {

// A tensor that a node of the graph puts out, in the axes the file gives it.
struct OnnxTensor {
  NodeId node = 0;
  size_t rank = 4;  // 2 (features), 4 or 5
  bool channels_last = false;
};

// What axis of the graph's own order an axis of the file is.
enum class Axis { kBatch, kChannel, kSpatial, kNone };
struct AxisPlace {
  Axis axis = Axis::kNone;
  size_t spatial = 0;  // position in a Spatial
};
// Negative axes count from the end.
AxisPlace PlaceOf(const OnnxTensor& tensor, int64_t axis);

bool IsOnePixel(const Shape& shape);

// An error names `what` where a number of the file has more than 32 bits.
Result<int32_t> Narrow(int64_t number, const std::string& what);

class OnnxImporter {
 public:
  OnnxImporter(const std::string& file, const ImportOptions& options)
      : file_(file), graph_(file, options) {}

  Result<Graph> Import(const onnx::GraphProto& graph);

 private:
  // Inputs that are transposed to channels first before anything looks at their axes: as tf2onnx
  // leaves TensorFlow's.
  void FindChannelsLast(const onnx::GraphProto& graph);

  std::string FirstOutput() const { return node_->output_size() > 0 ? node_->output(0) : ""; }

  Status AddNode();

  // True where all inputs are constants: the output is one, too.
  bool Fold();

  using Member = Status (OnnxImporter::*)();
  static const std::map<std::string, Member>& Members();

  // What a node takes and gives.
  bool HasInput(int index) const;
  const OnnxConstant* ConstantInput(int index) const;
  // Input 2 of a layer with weights, unless it repeats one number, as torch.export's exporter fills
  // in.
  bool HasBias() const;
  // A list that newer operators take as an input and older ones as an attribute. None where it is
  // not there, or computed.
  std::optional<std::vector<int64_t>> List(int input, const std::string& attribute) const;

  Result<OnnxTensor> TensorInput(int index);

  Result<OnnxTensor> AddInput(const std::string& name, const onnx::ValueInfoProto& info);

  Status Give(const OnnxTensor& tensor);
  // A new node behind `tensor`, whose axes stay.
  Status Append(const Operator& op, const OnnxTensor& tensor);
  Status AppendFeatures(const Operator& op, const OnnxTensor& tensor);
  Status AddNothing();
  // Lists the operator, and goes on with its first input that is no constant.
  Status PassUnsupported(const std::string& why);
  const Shape& ShapeOf(const OnnxTensor& tensor) const { return graph_.ShapeOf(tensor.node); }

  // The extents in the file's axes, the batch as 1.
  std::vector<int64_t> Extents(const OnnxTensor& tensor) const;
  Status AddShape();

  // Layers: onnx_layers.cpp.
  Status AddActivation();
  Status AddNormalization();
  Status AddLrn();
  Status AddDropout();
  Status AddSoftmax();

  // Stride, padding and dilation of a window of `extents` over `tensor`.
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
  static Result<Spatial> Difference(const Spatial& a, const Spatial& b);

  // The filter of a convolution of `tensor`, or null where it is none of ours.
  const OnnxConstant* Filter(const OnnxTensor& tensor) const;
  Status AddConvolution();
  Status AddTransposedConvolution();
  // The output is as large as output_shape says, or as the input times the stride, or as strides,
  // padding and output_padding make it.
  Status ReadTransposedExtents(const OnnxTensor& tensor, TransposedConvolution& layer) const;

  Status AddPooling();
  Status AddGlobalPooling();
  // Over all axes of the image: global pooling.
  Status AddReduction();

  Status AddGemm();
  Status AddMatMul();
  Status AddFullyConnected(const OnnxTensor& tensor, bool transposed, bool bias);

  // A sum of tensors, or a constant added: a bias where one belongs, else a shift.
  Status AddSum();
  // Nodes of several inputs with equal axes.
  Status Combine(const Operator& op);
  Status AddConstant(const OnnxTensor& tensor, const OnnxConstant& constant);

  // A product of two tensors, or with a constant.
  Status AddProduct();
  // x sigmoid(x) is one activation, swish, which exporters write as two nodes; so is the hard one.
  bool IsGateOf(NodeId gate, NodeId input);

  Status AddConcat();

  // What only moves axes and edges: onnx_axes.cpp.
  Status AddTranspose();
  Status AddFlatten();
  Status AddReshape();
  // Features as an image with its channels first; `shape` is the operator's input.
  Status AddImage(const OnnxTensor& tensor, std::vector<int64_t> shape);
  Status AddSqueeze();
  Status AddUnsqueeze();

  // Padding by so many pixels at each end; nothing where there are none.
  Status AddPadding(const OnnxTensor& tensor, const Padding& padding);
  Status AddPad();
  Status AddSlice();
  Status AddResize();

  const std::string file_;
  ImportedGraph graph_;
  std::map<std::string, const onnx::ValueInfoProto*> inputs_;
  std::set<std::string> channels_last_;  // of inputs_
  std::map<std::string, OnnxConstant> constants_;
  std::map<std::string, OnnxTensor> tensors_;
  const onnx::NodeProto* node_ = nullptr;  // being added
};

}  // namespace ucudnn::planner
