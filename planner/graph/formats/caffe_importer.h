// The implementation of ImportCaffe(): turns a Caffe network into a graph, layer by layer.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/formats/caffe_fields.h"
#include "planner/graph/formats/caffe_net.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/formats/text_format.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

// Returns the number of elements along the axes from `begin` up to `end`; 2^62 if there are more.
int64_t ElementsOf(const std::vector<int64_t>& dims, size_t begin, size_t end);
std::string DimsText(const std::vector<int64_t>& dims);  // "2x4x9x9"; shows at most eight extents
// Returns the position that axis `axis` of a Caffe blob of `rank` axes has in a Spatial. The last
// axis is w. REQUIRES: axis >= 2.
inline size_t PositionOf(size_t axis, size_t rank) { return axis + kMaxSpatial - rank; }

class CaffeImporter {
 public:
  CaffeImporter(const std::string& file, const ImportOptions& options)
      : file_(file), options_(options), graph_(file, options) {}

  Result<Graph> Import(TextField net, ImportedTensors* tensors);

 private:
  // Extents of a blob in Caffe's order: n, c and up to three spatial axes.
  using Dims = std::vector<int64_t>;

  struct Blob {
    // The node whose output is the blob; none for a label, a loss or an index, because no gradient
    // passes through these.
    std::optional<NodeId> node;
    std::optional<Dims> dims;  // none if unknown
  };

  struct LayerKind {
    Status (CaffeImporter::*add)();
    size_t least_bottoms, most_bottoms;
    size_t least_tops, most_tops;
    size_t most_params = 0;
  };
  static const std::map<std::string, LayerKind>& Kinds();

  Status AddLayer();
  Status PassThrough();

  // The functions below read layer_, the layer that is being added.
  CaffeFields Fields(const char* message) const {
    return CaffeFields(layer_->text).Message(message);
  }
  const Blob& Bottom(size_t index) const { return blobs_[layer_->bottoms[index]]; }
  Result<NodeId> BottomNode(size_t index) const;
  // REQUIRES: BottomNode(index) succeeds.
  const Dims& BottomDims(size_t index) const { return *Bottom(index).dims; }
  size_t BottomRank(size_t index) const { return BottomDims(index).size(); }
  // Returns the axis of bottom 0 that `axis` names. A negative `axis` counts from the end. An error
  // names the field `name`.
  Result<size_t> Axis(int32_t axis, const char* name) const;

  // Adds a node, whose output becomes top `index`, a blob of `rank` axes.
  Status Put(size_t index, const Operator& op, const std::vector<NodeId>& inputs, size_t rank,
             std::vector<Parameter> parameters = {});
  // Adds the node of a layer with one bottom and one top that have equally many axes.
  Status PutUnary(const Operator& op, std::vector<Parameter> parameters = {});
  void PutLabel(size_t index, std::optional<Dims> dims);
  void PutSame(size_t index, size_t bottom);
  // Returns the nodes of all bottoms. Fails unless every bottom has the extents of bottom 0, except
  // along axis `free`.
  Result<std::vector<NodeId>> SameBottoms(std::optional<size_t> free) const;
  // Returns an operator whose output image has extents `dims`. An element of the output may depend
  // on all positions along the Caffe axes `mixed`.
  static Opaque OpaqueOf(const std::string& kind, const Dims& dims, const std::set<size_t>& mixed,
                         double operations);

  // Returns the parameters of `layer`. `blobs` are the extents of its parameter blobs, and `nodes`
  // is the number of nodes that read them. Returns none if the file neither shares nor freezes a
  // parameter, unless `always` is set.
  Result<std::vector<Parameter>> ReadParameters(const CaffeLayer& layer,
                                                const std::vector<Dims>& blobs, bool always = false,
                                                size_t nodes = 1);

  // Caffe's field names of one property of a window, such as kernel_size, kernel_h and kernel_w.
  struct WindowWords {
    const char* each;  // may be given once for all axes, or once for each axis
    const char* height;
    const char* width;
    int32_t standard;
    int32_t least;
    bool needs_both;  // height and width must be given together
  };
  Result<std::vector<int32_t>> ReadWindow(const CaffeFields& fields, const WindowWords& words,
                                          size_t axes) const;
  struct Windows {
    std::vector<int32_t> window, stride, pad, dilation;
  };
  Result<Windows> ReadConvolutionWindows(const CaffeFields& fields, size_t axes) const;
  template <typename AnyConvolution>
  Status PutConvolutions(int32_t groups);
  Status PutConvolutionAlong(size_t axis, bool forward);

  // The functions below add one kind of layer each, in the order of Kinds().
  Status AddInputLayer();
  Status AddDummyData();
  Status AddMemoryData();
  Status AddData();
  Status PutImages(Dims dims);
  Status PutInput(size_t index, const Dims& dims);

  Status AddConvolution();
  Status AddDepthwise();
  Status AddDeconvolution();
  Status AddPooling();
  Status AddInnerProduct();
  Status AddLrn();
  Status AddMvn();
  Status AddDropout();
  Status AddNormalization();
  Status AddWholeNormalization();
  Status AddScale();
  Status AddBias();
  Status AddScaling(bool scale, bool shift, const CaffeFields& fields);
  Status AddScalingByBottom(bool multiplies, const CaffeFields& fields);
  Status AddPrelu();
  Status AddConcat();
  Status AddSlice();
  Status AddCrop();
  Status AddTile();
  Status AddReduction();
  Status AddArgMax();
  Status AddNormalize();
  Status AddPermute();
  Status AddEltwise();
  Status AddFlatten();
  Status AddReshape();
  Status PutReshaped(const Dims& dims);
  Status AddSoftmax();
  Status AddSoftmaxLoss();
  Status PutSoftmax(size_t top);
  Status AddLoss();
  Status AddSplit();
  Status AddRelu();
  template <ActivationKind kind>
  Status AddActivation() {
    return PutUnary(Activation{kind});
  }
  Status Drop();

  // Returns the Scale that scales and shifts the output `blob` of a BatchNorm; null if another
  // layer reads `blob`, too.
  const CaffeLayer* CompletingScale(size_t blob) const;

  const std::string file_;
  const ImportOptions options_;
  bool input_is_used_ = false;
  ImportedGraph graph_;
  CaffeNet net_;
  std::vector<Blob> blobs_;  // by the blob's number in CaffeNet
  const CaffeLayer* layer_ = nullptr;
  std::set<const CaffeLayer*> merged_;  // Scales that became part of the preceding BatchNorm
  std::map<std::string, Dims> shared_;  // extents of parameters that have a name
  int next_tensor_ = 0;
};

}  // namespace ucudnn::planner
