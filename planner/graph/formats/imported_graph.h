// The parts that importers share: nodes are added under the names of the file, and their shapes are
// known at once. Thread-compatible.
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
  // The folder of an ONNX model's files of numbers. Only small whole numbers are read, from which
  // exporters compute shapes. If empty, none are read.
  std::string folder;
  // Height and width of images if an ONNX file leaves them open; 0: they stay open.
  std::array<int32_t, 2> size = {0, 0};
  // Channels and extents of the images of Caffe's data layers, which may give none: c, h, w or c,
  // d, h, w. Empty: the file gives them.
  std::vector<int32_t> input;
};

// A tensor of a file: its node in the graph, and its axes as digits of the node's axes.
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

  // Appends a number to `name` if the name is taken; uses `fallback` if `name` is empty. The error
  // says what does not fit, without file and node.
  Result<NodeId> Add(const std::string& name, const std::string& fallback, const Operator& op,
                     const std::vector<NodeId>& inputs, std::vector<Parameter> parameters = {});

  const Shape& ShapeOf(NodeId id) const { return shapes_[static_cast<size_t>(id)]; }
  // Returns the operator, to be completed by what only the next node says. The shape must not
  // change.
  Operator& OperatorOf(NodeId id) { return nodes_[static_cast<size_t>(id)].op; }
  const Node& NodeOf(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  int Uses(NodeId id) const { return uses_[static_cast<size_t>(id)]; }
  // Replaces the operator of a node that no other node reads yet.
  Status Restate(NodeId id, const Operator& op);
  NodeId Nodes() const { return static_cast<NodeId>(nodes_.size()); }
  void AddParameters(NodeId id, const std::vector<Parameter>& parameters);
  // Drops a node if no other node reads it.
  void DropIfUnused(NodeId id);

  // If only cuts of whole channels read a Linear, and each channel is read at most once, replaces
  // it by one Linear for each cut. `outputs` are read too.
  void SplitFusedLinears(const std::vector<NodeId>& outputs);

  // Notes an unknown operator. The importer goes on as if the operator passed its input through, so
  // that all unknown operators are listed at once.
  void NoteUnsupported(const std::string& type, const std::string& node, const std::string& why);

  // Returns a one-line error for the file. Unsupported operators come first, because a fault after
  // them need not be a fault of the file.
  Status Fault(const std::string& node, const std::string& what) const;

  // Returns the graph, called `name`, without unused inputs and without nodes that none of
  // `outputs` needs. If `outputs` is empty, all nodes are needed. Fails if there are unsupported
  // operators that do not pass through, if there is no layer, or if parts are not connected. `ids`,
  // if not null, receives the position of each node in the graph; -1: the node was dropped.
  Result<Graph> Finish(const std::string& name, const std::vector<NodeId>& outputs = {},
                       std::vector<NodeId>* ids = nullptr) const;

 private:
  // Says for each node whether one of `outputs` reads it, directly or through other nodes.
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
  std::map<std::string, int> numbers_;  // the last number appended to a name
  std::map<std::string, std::vector<std::string>> unsupported_;  // nodes by operator
};

}  // namespace ucudnn::planner
