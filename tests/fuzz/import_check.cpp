#include "import_check.h"

#include <algorithm>

#include "planner/graph/formats/caffe.h"
#include "planner/graph/formats/net_json.h"
#include "planner/graph/formats/onnx.h"
#include "planner/graph/layers.h"
#include "planner/graph/shapes.h"

namespace ucudnn::fuzz {
namespace {

using planner::Graph;

constexpr const char* kFile = "fuzzed";

Result<Graph> Import(NetworkFormat format, const std::string& bytes, bool pass_through) {
  switch (format) {
    case NetworkFormat::kOnnx:
      return planner::ImportOnnx(bytes, kFile, {.pass_through = pass_through});
    case NetworkFormat::kCaffe:
      return planner::ImportCaffe(bytes, kFile, {.pass_through = pass_through});
    case NetworkFormat::kJson:
      break;
  }
  return planner::ParseNetJson(bytes, kFile);
}

std::string CheckError(const Status& status, const std::string& of) {
  const std::string& message = status.message();
  const bool printable = std::all_of(message.begin(), message.end(),
                                     [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
  if (message.empty() || !printable) return of + " gives an error that is no line: " + message;
  if (message.rfind(kFile, 0) != 0) return of + " gives an error without the file: " + message;
  return "";
}

// JSON is UTF-8; names of other files are any bytes.
bool HasAsciiNames(const Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const planner::Node& node) {
    return std::all_of(node.name.begin(), node.name.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  });
}

std::string CheckGraph(Graph graph) {
  graph.name = kFile;
  const auto shapes = planner::InferShapes(graph, 1);
  if (!shapes.ok()) return "a graph without shapes: " + shapes.message();
  if (shapes->size() != graph.nodes.size()) return "a graph with shapes of other nodes";
  const auto layers = planner::ConvolutionLayers(
      graph, 2, {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter});
  if (!layers.ok()) {
    if (const std::string fault = CheckError(layers.status(), "a layer"); !fault.empty()) {
      return fault;
    }
  }
  const auto parameters = planner::ParameterCount(graph);
  if (parameters.ok() ? *parameters < 0 : !CheckError(parameters.status(), "a count").empty()) {
    return "a graph without a count of parameters";
  }
  if (!HasAsciiNames(graph)) return "";
  const std::string text = planner::WriteNetJson(graph);
  const auto read = planner::ParseNetJson(text, kFile);
  if (!read.ok()) return "a graph that JSON does not bring back: " + read.message();
  if (planner::WriteNetJson(*read) != text) return "a graph that JSON brings back otherwise";
  return "";
}

}  // namespace

ImportCheck CheckImport(NetworkFormat format, const std::string& bytes) {
  ImportCheck check;
  for (const bool pass_through : {false, true}) {
    const Result<Graph> graph = Import(format, bytes, pass_through);
    check.is_network = graph.ok();
    check.fault = graph.ok() ? CheckGraph(*graph) : CheckError(graph.status(), "the file");
    if (!check.fault.empty()) break;
  }
  return check;
}

}  // namespace ucudnn::fuzz
