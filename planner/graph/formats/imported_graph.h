// The code that importers share: it adds nodes under the names of the file, and infers the shape of
// each node when the node is added. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "planner/graph/formats/view.h"
#include "planner/graph/graph.h"
#include "planner/graph/shapes.h"

namespace ucudnn::planner {

struct ImportOptions {
  // If set, unknown operators pass their first input through unchanged.
  bool pass_through = false;
  // The folder with the external data files of an ONNX model. The importer reads only small whole
  // numbers from these files, because exporters compute shapes from such numbers. If the folder is
  // empty, it reads no files.
  std::string folder;
  // Height and width of images whose size an ONNX file leaves open; 0 leaves them open.
  std::array<int32_t, 2> size = {0, 0};
  // Channels and extents (c, h, w or c, d, h, w) of the images of Caffe's data layers, because
  // files often lack these. If empty, the file must give them.
  std::vector<int32_t> input;
};

// The place of a file's tensor in the graph: the node that has the tensor's elements, and each axis
// of the tensor as digits (view.h) of the node's axes.
struct ImportedTensor {
  NodeId node = 0;
  View view;
};
using ImportedTensors = std::map<std::string, ImportedTensor>;

class ImportedGraph {
 public:
  // Errors show the file as `file`.
  ImportedGraph(std::string file, const ImportOptions& options)
      : file_(std::move(file)), options_(options) {}

  // Adds a node. Uses `fallback` if `name` is empty, and appends a number if the name is taken. The
  // error says what does not fit; it does not name the file or the node.
  Result<NodeId> Add(const std::string& name, const std::string& fallback, const Operator& op,
                     const std::vector<NodeId>& inputs, std::vector<Parameter> parameters = {});

  const Shape& ShapeOf(NodeId id) const { return shapes_[static_cast<size_t>(id)]; }
  // Returns a node's operator, so that the importer can set fields that it learns only from the
  // file's next node. The caller must not change the operator's output shape.
  Operator& OperatorOf(NodeId id) { return nodes_[static_cast<size_t>(id)].op; }
  const Node& NodeOf(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  int Uses(NodeId id) const { return uses_[static_cast<size_t>(id)]; }
  // Replaces the operator of a node that no other node reads yet.
  Status Restate(NodeId id, const Operator& op);
  NodeId Nodes() const { return static_cast<NodeId>(nodes_.size()); }
  void AddParameters(NodeId id, const std::vector<Parameter>& parameters);
  // Drops a node if no other node reads it.
  void DropIfUnused(NodeId id);

  // Splits each Linear whose readers are two or more Paddings, each of which cuts a range of
  // channels out of the Linear's output. If the ranges are disjoint and no other node shares the
  // Linear's parameters, each Padding is replaced by a Linear that computes its range. A Linear
  // among `outputs` is not split.
  void SplitFusedLinears(const std::vector<NodeId>& outputs);

  // Records an unknown operator. The importer continues as if the operator passed its input
  // through, so that one error can list all unknown operators.
  void NoteUnsupported(const std::string& type, const std::string& node, const std::string& why);

  // Returns a one-line error for the file. If there are unsupported operators that do not pass
  // through, the error lists these operators in place of `what`, because `what` may be only a
  // consequence of them.
  Status Fault(const std::string& node, const std::string& what) const;

  // Returns the graph, called `name`. Leaves out unused inputs, and nodes on which none of
  // `outputs` depends; an empty `outputs` keeps all nodes. Fails if there are unsupported operators
  // that do not pass through, if the graph has no layer, or if it is not connected. `ids`, if not
  // null, receives the position of each node in the graph, or -1 for a dropped node.
  Result<Graph> Finish(const std::string& name, const std::vector<NodeId>& outputs = {},
                       std::vector<NodeId>* ids = nullptr) const;

 private:
  // Returns for each node whether one of `outputs` depends on it or is the node itself.
  std::vector<bool> NeededFor(const std::vector<NodeId>& outputs) const;
  std::vector<std::string> UnsupportedTexts() const;
  Status UnsupportedFault() const;

  const std::string file_;
  const ImportOptions options_;
  std::vector<Node> nodes_;
  std::vector<Shape> shapes_;
  std::vector<int> uses_;
  std::unordered_set<NodeId> dropped_;
  std::unordered_set<std::string> names_;
  std::map<std::string, int> numbers_;  // by name: the last number that was appended
  std::map<std::string, std::vector<std::string>> unsupported_;  // by operator: its nodes
};

}  // namespace ucudnn::planner
