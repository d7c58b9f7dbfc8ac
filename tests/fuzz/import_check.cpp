#include "import_check.h"

#include <algorithm>

#include "data_check.h"
#include "planner/graph/formats/caffe.h"
#include "planner/graph/formats/net_json.h"
#include "planner/graph/formats/onnx.h"
#include "planner/graph/layers.h"
#include "planner/graph/shapes.h"

namespace ucudnn::fuzz {
namespace {

using planner::Graph;

Result<Graph> Import(FileFormat format, const std::string& bytes, bool pass_through) {
  switch (format) {
    case FileFormat::kOnnx:
      return planner::ImportOnnx(bytes, kFuzzedFile, {.pass_through = pass_through});
    case FileFormat::kCaffe:
      return planner::ImportCaffe(bytes, kFuzzedFile, {.pass_through = pass_through});
    default:
      break;
  }
  return planner::ParseNetJson(bytes, kFuzzedFile);
}

// Returns whether all names are ASCII. A graph can be read back from JSON only if its names are
// UTF-8, but other formats allow any bytes in names.
bool HasAsciiNames(const Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const planner::Node& node) {
    return std::all_of(node.name.begin(), node.name.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  });
}

std::string CheckGraph(Graph graph) {
  graph.name = kFuzzedFile;
  const auto shapes = planner::InferShapes(graph, 1);
  if (!shapes.ok()) return "a graph without shapes: " + shapes.message();
  if (shapes->size() != graph.nodes.size()) return "a graph with shapes of other nodes";
  const auto layers = planner::ConvolutionLayers(
      graph, 2, {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter});
  if (!layers.ok()) {
    if (const std::string fault = CheckLine(layers.status(), "a layer"); !fault.empty()) {
      return fault;
    }
  }
  const auto parameters = planner::ParameterCount(graph);
  if (parameters.ok() ? *parameters < 0 : !CheckLine(parameters.status(), "a count").empty()) {
    return "a graph without a count of parameters";
  }
  if (!HasAsciiNames(graph)) return "";
  const std::string text = planner::WriteNetJson(graph);
  const auto read = planner::ParseNetJson(text, kFuzzedFile);
  if (!read.ok()) return "a graph that JSON does not bring back: " + read.message();
  if (planner::WriteNetJson(*read) != text) return "a graph that JSON brings back otherwise";
  return "";
}

}  // namespace

std::string CheckLine(const Status& status, const std::string& of, const std::string& file) {
  const std::string& message = status.message();
  const bool printable = std::all_of(message.begin(), message.end(),
                                     [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
  if (message.empty() || !printable) return of + " gives an error that is no line: " + message;
  const bool names_file = message.starts_with(file);
  return names_file ? "" : of + " gives an error without the file: " + message;
}

ImportCheck CheckImport(FileFormat format, const std::string& bytes) {
  const bool is_network =
      format == FileFormat::kOnnx || format == FileFormat::kCaffe || format == FileFormat::kJson;
  if (!is_network) return CheckData(format, bytes);
  ImportCheck check;
  for (const bool pass_through : {false, true}) {
    const Result<Graph> graph = Import(format, bytes, pass_through);
    check.is_read = graph.ok();
    check.fault = graph.ok() ? CheckGraph(*graph) : CheckLine(graph.status(), "the file");
    if (!check.fault.empty()) break;
  }
  return check;
}

}  // namespace ucudnn::fuzz
