// What importers share: nodes are added as the file names them, with their shapes known at once.
// Thread-compatible.
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
  // Operators this planner does not know give out their first input unchanged.
  bool pass_through = false;
  // Where an ONNX model's files of numbers lie; only small whole numbers are read, of which
  // exporters compute shapes. Empty: nowhere.
  std::string folder;
  // Height and width of images where an ONNX file leaves them open; 0: they stay open.
  std::array<int32_t, 2> size = {0, 0};
  // Channels and extents of the images of Caffe's data layers, which may say none: c, h, w or
  // c, d, h, w. Empty: the file says them.
  std::vector<int32_t> input;
};

// A tensor of a file: a node of the graph, and its axes as digits of the node's axes.
struct ImportedTensor {
  NodeId node = 0;
  View view;
};
using ImportedTensors = std::map<std::string, ImportedTensor>;

class ImportedGraph {
 public:
  // `file` is the name errors show.
  ImportedGraph(std::string file, const ImportOptions& options)
      : file_(std::move(file)), options_(options) {}

  // `name` gets a number where it is taken, and `fallback` stands in for an empty one. The error
  // says what does not fit, without file and node.
  Result<NodeId> Add(const std::string& name, const std::string& fallback, const Operator& op,
                     const std::vector<NodeId>& inputs, std::vector<Parameter> parameters = {});

  const Shape& ShapeOf(NodeId id) const { return shapes_[static_cast<size_t>(id)]; }
  // To complete an operator by what only the next one says; the shape must stay.
  Operator& OperatorOf(NodeId id) { return nodes_[static_cast<size_t>(id)].op; }
  const Node& NodeOf(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  int Uses(NodeId id) const { return uses_[static_cast<size_t>(id)]; }
  // Another operator for a node that no other reads yet.
  Status Restate(NodeId id, const Operator& op);
  NodeId Nodes() const { return static_cast<NodeId>(nodes_.size()); }
  void AddParameters(NodeId id, const std::vector<Parameter>& parameters);
  // Leaves a node out that no other reads.
  void DropIfUnused(NodeId id);

  // Linears that only cuts of whole channels read, each channel at most once, become as many
  // linears as there are cuts. `outputs` are read, too.
  void SplitFusedLinears(const std::vector<NodeId>& outputs);

  // Notes an operator that this planner does not know; the importer goes on as if it passed its
  // input through, so that all are listed at once.
  void NoteUnsupported(const std::string& type, const std::string& node, const std::string& why);

  // A one-line error for the file. What is unsupported comes first: what went wrong behind it need
  // not be a fault of the file.
  Status Fault(const std::string& node, const std::string& what) const;

  // The graph, called `name`, without inputs that nothing uses and without nodes that none of
  // `outputs` needs; where these are empty, all nodes are needed. Refused: unsupported operators,
  // unless they pass through; no layer at all; parts that are not connected.
  // `ids`, where asked for, holds the position of each node in the graph; -1: it is not there.
  Result<Graph> Finish(const std::string& name, const std::vector<NodeId>& outputs = {},
                       std::vector<NodeId>* ids = nullptr) const;

 private:
  // By node: whether one of `outputs` reads it, by way of others.
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
  std::map<std::string, int> numbers_;                           // the last one a name got
  std::map<std::string, std::vector<std::string>> unsupported_;  // nodes by operator
};

}  // namespace ucudnn::planner
