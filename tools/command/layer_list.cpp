#include "command/layer_list.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "command/offline_rows.h"
#include "command/report_file.h"
#include "command/whole_number.h"
#include "convolution/columns.h"
#include "convolution/layers_csv.h"
#include "planner/graph/layers.h"
#include "planner/graph/network_file.h"
#include "planner/graph/networks.h"
#include "planner/striping/exact_size.h"

namespace ucudnn::command {
namespace {

// The problem at another mini-batch, or why there is none so large.
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

// The axes of the network's images: 2 or 3.
size_t AxesOf(const planner::Graph& graph) {
  const auto* const input = std::get_if<planner::Input>(&graph.nodes.front().op);
  return input != nullptr ? static_cast<size_t>(input->spatial_rank) : 2;
}

// --size: an extent of the images for each of their axes, or one for all.
Status ChangeSize(const std::string& text, planner::Graph& graph) {
  if (text.empty()) return Status::Ok();
  const size_t axes = AxesOf(graph);
  const std::vector<std::string> words = Split(text, 'x');
  bool is_size = words.size() == 1 || words.size() == axes;
  Spatial extents = {0, 0, 0};
  for (size_t i = 0; is_size && i < axes; ++i) {
    const auto extent = WholeNumber<int32_t>(words[words.size() == 1 ? 0 : i], 1);
    is_size = extent.has_value();
    extents[kMaxSpatial - axes + i] = extent.value_or(0);
  }
  if (!is_size) {
    return Status::Error("--size " + Quoted(text) + ": expected " +
                         (axes == 2 ? "rows and columns, as in 256x256"
                                    : "depth, rows and columns, as in 64x128x128") +
                         ", or one number for all of them");
  }
  const Status changed = planner::SetInputExtents(graph, extents);
  return changed.ok() ? changed : Status::Error("--size: " + changed.message());
}

// --size for a file that leaves the size of its images open, before these are known; zeros where it
// is none.
std::array<int32_t, 2> OpenSize(const std::string& text) {
  std::vector<int32_t> extents;
  for (const std::string& word : Split(text, 'x')) {
    const auto extent = WholeNumber<int32_t>(word, 1);
    if (!extent) return {0, 0};
    extents.push_back(*extent);
  }
  if (extents.empty()) return {0, 0};
  return {extents[extents.size() < 2 ? 0 : extents.size() - 2], extents.back()};
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
  UCUDNN_ASSIGN_OR_RETURN(const auto reading, ParseImport(source.pass_through, source.input));
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

// The kernels a report names, each once, at its own mini-batch or the one that is asked for.
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

// In lines that fit the column of descriptions.
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
  if (const auto batch = WholeNumber<int>(text, 1)) return *batch;
  return Status::Error("--batch '" + text + "': not a mini-batch (accepted: 1 or more)");
}

void AddInput(CLI::App& app, std::string& input) {
  app.add_option("--input", input,
                 "channels and extents of images where a file leaves them open: the data layers of "
                 "a Caffe\n"
                 "file, height and width of an ONNX file: 3x224x224")
      ->type_name("CxHxW");
}

void AddSize(CLI::App& app, std::string& size) {
  app.add_option(
         "--size", size,
         "the size of the network's images in place of its own: 256x256, or 256 for all axes")
      ->type_name("SIZE");
}

Result<planner::Graph> LoadNetworkOfSize(const std::string& net, planner::ImportOptions reading,
                                         const std::string& size) {
  reading.size = OpenSize(size);
  Result<planner::Graph> graph = planner::LoadNetwork(net, reading);
  if (!graph.ok()) return Status::Error("--net " + graph.message());
  UCUDNN_RETURN_IF_ERROR(ChangeSize(size, *graph));
  return graph;
}

Result<planner::ImportOptions> ParseImport(bool pass_through, const std::string& input) {
  planner::ImportOptions options = {.pass_through = pass_through, .input = {}};
  if (input.empty()) return options;
  const std::vector<std::string> extents = Split(input, 'x');
  for (const std::string& extent : extents) {
    if (const auto number = WholeNumber<int32_t>(extent, 1)) options.input.push_back(*number);
  }
  const size_t count = options.input.size();
  if (count == extents.size() && (count == 3 || count == 4)) return options;
  return Status::Error("--input " + Quoted(input) +
                       ": expected channels, height and width of an image, as in 3x224x224");
}

void LayerSource::AddTo(CLI::App& app) {
  app.add_option("--layers", layers, "layers from a CSV file")->type_name("FILE.csv");
  app.add_option("--net", net,
                 "layers of a network: FILE.onnx, FILE.prototxt (Caffe),\n"
                 "FILE.json (ucudnn-net), or built-in:\n" +
                     Networks())
      ->type_name("NAME|FILE");
  app.add_flag("--pass-through", pass_through,
               "operators of --net FILE that are not known pass their input through")
      ->disable_flag_override();
  AddInput(app, input);
  AddSize(app, size);
  app.add_option("--trace", trace, "kernels of a report that a run wrote with --report")
      ->type_name("FILE.json");
  app.add_option(
         "--batch", batch,
         "images in a mini-batch: needed with --net (unet-3d, vae-decoder, video-vae: 1), else\n"
         "in place of the file's")
      ->type_name("N");
  app.add_option("--ops", ops, "operations, separated by commas (" + ops + ")")->type_name("LIST");
}

Result<std::vector<Layer>> ListLayers(const LayerSource& source) {
  if (!source.layers.empty() + !source.net.empty() + !source.trace.empty() != 1) {
    return Status::Error(
        "exactly one of --layers FILE.csv, --net NAME|FILE and --trace FILE.json is needed");
  }
  if (source.pass_through && source.net.empty()) {
    return Status::Error("--pass-through: is for the operators of --net FILE, which is missing");
  }
  if (!source.input.empty() && source.net.empty()) {
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
