#include "command/layer_list.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "command/command.h"
#include "command/numbers.h"
#include "command/offline_rows.h"
#include "command/report/file.h"
#include "convolution/columns.h"
#include "convolution/layers_csv.h"
#include "planner/graph/layers.h"
#include "planner/graph/network_file.h"
#include "planner/graph/networks.h"
#include "planner/striping/exact_size.h"

namespace ucudnn::command {
namespace {

// Returns the problem with a mini-batch of `batch` images; fails if that is no valid problem.
Result<ConvolutionProblem> AtBatch(ConvolutionProblem problem, int batch) {
  problem.n = batch;
  std::map<std::string, std::string> fields;
  for (auto& [column, text] : ToColumns(problem)) fields[column] = std::move(text);
  fields["op"] = OperationName(problem.operation);
  return FromColumns([&](const std::string& column) -> const std::string* {
    const auto field = fields.find(column);
    return field == fields.end() || field->second.empty() ? nullptr : &field->second;
  });
}

// Returns the number of spatial axes of the network's images: 2 or 3.
size_t AxesOf(const planner::Graph& graph) {
  const auto* const input = std::get_if<planner::Input>(&graph.nodes.front().op);
  return input != nullptr ? static_cast<size_t>(input->spatial_rank) : 2;
}

// Sets the extents of the network's images to those of --size (`text`): an extent for each spatial
// axis, or one for all of them. Does nothing if `text` is empty.
Status ChangeSize(const std::string& text, planner::Graph& graph) {
  if (text.empty()) return Status::Ok();
  const size_t axes = AxesOf(graph);
  const auto given = WholeNumbers(text, 'x', 1);
  if (!given || (given->size() != 1 && given->size() != axes)) {
    return Status::Error("--size " + Quoted(text) + ": expected " +
                         (axes == 2 ? "rows and columns, as in 256x256"
                                    : "depth, rows and columns, as in 64x128x128") +
                         ", or one number for all of them");
  }
  Spatial extents = {0, 0, 0};
  for (size_t i = 0; i < axes; ++i) {
    extents[kMaxSpatial - axes + i] = (*given)[given->size() == 1 ? 0 : i];
  }
  const Status changed = planner::SetInputExtents(graph, extents);
  return changed.ok() ? changed : Status::Error("--size: " + changed.message());
}

// Returns height and width from --size, for files that do not give the size of the images. Returns
// zeros if --size is not given.
std::array<int32_t, 2> OpenSize(const std::string& text) {
  const auto extents = WholeNumbers(text, 'x', 1);
  if (!extents) return {0, 0};
  return {(*extents)[extents->size() < 2 ? 0 : extents->size() - 2], extents->back()};
}

Result<std::vector<Layer>> FromFile(const LayerSource& source,
                                    const std::vector<Operation>& operations) {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<Layer> layers, ReadLayersCsv(source.layers, operations));
  if (source.batch.empty()) return layers;
  UCUDNN_ASSIGN_OR_RETURN(const int batch, ParseBatch(source.batch));
  for (Layer& layer : layers) {
    Result<ConvolutionProblem> problem = AtBatch(layer.problem, batch);
    if (!problem.ok()) return Status::Error("layer " + layer.name + ": " + problem.message());
    layer.problem = *problem;
  }
  return layers;
}

Result<std::vector<Layer>> FromNetwork(const LayerSource& source,
                                       const std::vector<Operation>& operations) {
  UCUDNN_ASSIGN_OR_RETURN(const auto reading, source.reading.Parse());
  UCUDNN_ASSIGN_OR_RETURN(const planner::Graph graph,
                          LoadNetworkOfSize(source.net, reading, source.size));
  const std::optional<int> usual = planner::UsualBatch(source.net);
  if (source.batch.empty() && !usual) {
    return Status::Error("--net needs the mini-batch: --batch N");
  }
  int batch = usual.value_or(0);
  if (!source.batch.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(batch, ParseBatch(source.batch));
  }
  Result<std::vector<Layer>> layers = planner::ConvolutionLayers(graph, batch, operations);
  if (!layers.ok()) return Status::Error("--net '" + source.net + "': " + layers.message());
  return layers;
}

// Returns each kernel of a report once, with the mini-batch of the report or of --batch.
Result<std::vector<Layer>> FromTrace(const LayerSource& source,
                                     const std::vector<Operation>& operations) {
  const Result<RunReport> report = ReadReport(source.trace);
  if (!report.ok()) return Status::Error("--trace " + report.message());
  int batch = 0;
  if (!source.batch.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(batch, ParseBatch(source.batch));
  }
  std::vector<Layer> layers;
  std::unordered_map<ConvolutionProblem, size_t, HashOfProblem> known;
  for (size_t at = 0; at < report->kernels.size(); ++at) {
    const ReportedKernel& kernel = report->kernels[at];
    const Operation operation = kernel.problem.operation;
    if (std::find(operations.begin(), operations.end(), operation) == operations.end()) continue;
    const std::string number = "kernel " + std::to_string(at + 1);
    Layer layer{kernel.name.empty() ? number : kernel.name, kernel.problem, kernel.lanes};
    if (batch > 0) {
      Result<ConvolutionProblem> problem = AtBatch(layer.problem, batch);
      if (!problem.ok()) return Status::Error("--batch: " + number + ": " + problem.message());
      layer.problem = *problem;
    }
    const auto [first, added] = known.try_emplace(layer.problem, layers.size());
    if (added) {
      layers.push_back(std::move(layer));
    } else {
      layers[first->second].lanes |= layer.lanes;
    }
  }
  if (layers.empty()) {
    return Status::Error("--trace " + Quoted(source.trace) + ": it has no kernels of " +
                         source.ops);
  }
  return layers;
}

// Returns the names of the built-in networks, in lines that fit the help's column of descriptions.
std::string Networks() {
  constexpr size_t kColumns = 60;
  std::string lines, line;
  for (const std::string& name : planner::NetworkNames()) {
    if (!line.empty() && line.size() + name.size() + 2 > kColumns) {
      lines += line + ",\n";
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + name;
  }
  return lines + line;
}

}  // namespace

Result<int> ParseBatch(const std::string& text) {
  return ParseWhole("--batch", text, 1, std::numeric_limits<int>::max(),
                    "not a mini-batch (accepted: 1 or more)");
}

void ImportWords::AddTo(CLI::App& app, const char* help) {
  AddFlag(app, "--pass-through", pass_through, help);
  AddOption(app, "--input", input, "CxHxW",
            "channels and extents of images where a file leaves them open: the data layers of "
            "a Caffe\n"
            "file, height and width of an ONNX file: 3x224x224");
}

Result<planner::ImportOptions> ImportWords::Parse() const {
  planner::ImportOptions options = {.pass_through = pass_through, .input = {}};
  if (input.empty()) return options;
  const auto extents = WholeNumbers(input, 'x', 1);
  if (!extents || (extents->size() != 3 && extents->size() != 4)) {
    return Status::Error("--input " + Quoted(input) +
                         ": expected channels, height and width of an image, as in 3x224x224");
  }
  options.input.assign(extents->begin(), extents->end());
  return options;
}

void AddNetwork(CLI::App& app, const char* name, std::string& net, const char* value) {
  AddOption(app, name, net, value,
            "FILE.onnx, FILE.prototxt (Caffe), FILE.json (ucudnn-net),\n"
            "or a built-in network (any other word lists them)")
      ->required();
}

void AddSize(CLI::App& app, std::string& size) {
  AddOption(app, "--size", size, "SIZE",
            "the size of the network's images in place of its own: 256x256, or 256 for all axes");
}

Result<planner::Graph> LoadNetworkOfSize(const std::string& net, planner::ImportOptions reading,
                                         const std::string& size) {
  reading.size = OpenSize(size);
  Result<planner::Graph> graph = planner::LoadNetwork(net, reading);
  if (!graph.ok()) return Status::Error("--net " + graph.message());
  UCUDNN_RETURN_IF_ERROR(ChangeSize(size, *graph));
  return graph;
}

void LayerSource::AddTo(CLI::App& app) {
  AddOption(app, "--layers", layers, "FILE.csv", "layers from a CSV file");
  AddOption(app, "--net", net, "NAME|FILE",
            "layers of a network: FILE.onnx, FILE.prototxt (Caffe),\n"
            "FILE.json (ucudnn-net), or built-in:\n" +
                Networks());
  reading.AddTo(app, "operators of --net FILE that are not known pass their input through");
  AddSize(app, size);
  AddOption(app, "--trace", trace, "FILE.json",
            "kernels of a report that a run wrote with --report");
  AddOption(app, "--batch", batch, "N",
            "images in a mini-batch: needed with --net (unet-3d, vae-decoder, video-vae: 1), else\n"
            "in place of the file's");
  AddOption(app, "--ops", ops, "LIST", "operations, separated by commas (" + ops + ")");
}

Result<std::vector<Layer>> ListLayers(const LayerSource& source) {
  if (!source.layers.empty() + !source.net.empty() + !source.trace.empty() != 1) {
    return Status::Error(
        "exactly one of --layers FILE.csv, --net NAME|FILE and --trace FILE.json is needed");
  }
  if (source.reading.pass_through && source.net.empty()) {
    return Status::Error("--pass-through: is for the operators of --net FILE, which is missing");
  }
  if (!source.reading.input.empty() && source.net.empty()) {
    return Status::Error("--input: is for the images of --net FILE, which is missing");
  }
  if (!source.size.empty() && source.net.empty()) {
    return Status::Error("--size: is for the images of --net, which is missing");
  }
  const Result<std::vector<Operation>> operations = ParseOperations(source.ops);
  if (!operations.ok()) return Status::Error("--ops '" + source.ops + "': " + operations.message());
  if (!source.layers.empty()) return FromFile(source, *operations);
  if (!source.trace.empty()) return FromTrace(source, *operations);
  return FromNetwork(source, *operations);
}

}  // namespace ucudnn::command
