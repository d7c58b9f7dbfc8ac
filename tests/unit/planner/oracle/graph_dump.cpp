// graph_dump [--batch N] FILE...: prints what the importers read from the files, for check.py. Each
// file gives a line of JSON.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "planner/cost/configuration.h"
#include "planner/cost/partition.h"
#include "planner/graph/formats/caffe.h"
#include "planner/graph/formats/onnx.h"
#include "planner/graph/formats/operator_fields.h"

namespace ucudnn::planner {
namespace {

using nlohmann::json;

constexpr int kMostParts = 12;

json BoxesOf(const Parts& parts) {
  json boxes = json::array();
  for (int worker = 0; worker < parts.Workers(); ++worker) {
    json box = json::array();
    for (const Interval& interval : parts.Of(worker)) {
      box.push_back({interval.begin, interval.end});
    }
    boxes.push_back(box);
  }
  return boxes;
}

// Adds, for each axis, the division of the node into the smallest legal number of parts, and what
// each part needs.
void AddDivisions(const PlannedLayer& layer, json& node) {
  const std::map<std::string, int Degrees::*> axes = {
      {"n", &Degrees::n}, {"c", &Degrees::c}, {"h", &Degrees::h}, {"w", &Degrees::w}};
  for (const auto& [letter, axis] : axes) {
    for (int parts = 2; parts <= kMostParts; ++parts) {
      Degrees degrees;
      degrees.*axis = parts;
      const auto legal = LegalConfigurations(layer, parts, {});
      const bool is_legal =
          std::any_of(legal.begin(), legal.end(), [&](const ParallelConfiguration& configuration) {
            return configuration.degrees == degrees;
          });
      if (!is_legal) continue;
      json inputs = json::array();
      for (size_t input = 0; input < layer.inputs.size(); ++input) {
        inputs.push_back(BoxesOf(NeededParts(layer, static_cast<int>(input), degrees)));
      }
      node["parts"][letter] = parts;
      node["needed"][letter] = {{"parts", parts},
                                {"output", BoxesOf(ComputedParts(layer.output, degrees))},
                                {"inputs", inputs}};
      break;
    }
  }
}

json Described(const ImportedTensor& tensor, int batch) {
  json axes = json::array();
  const std::string letters = "ncdhw";
  const Digits all = AllOf(tensor.view);
  const auto parts_of_batch = std::count_if(
      all.begin(), all.end(), [](const Digit& digit) { return digit.axis == ViewAxis::kBatch; });
  for (const Digits& digits : tensor.view) {
    json axis = json::array();
    for (const Digit& digit : digits) {
      // The places are those at `batch`, which may differ from the batch of the file.
      const bool is_whole = digit.axis == ViewAxis::kBatch && parts_of_batch == 1;
      const int64_t size = is_whole ? batch : digit.size;
      if (size == 1) continue;
      axis.push_back({letters.substr(static_cast<size_t>(digit.axis), 1), size, digit.stride});
    }
    axes.push_back(axis);
  }
  return {{"node", tensor.node}, {"axes", axes}};
}

json Dump(const std::string& path, int batch) {
  std::ifstream stream(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  ImportedTensors tensors;
  ImportOptions options;
  options.folder = std::filesystem::path(path).parent_path();
  const Result<Graph> graph = path.ends_with(".onnx")
                                  ? ImportOnnx(content, path, options, &tensors)
                                  : ImportCaffe(content, path, options, &tensors);
  if (!graph.ok()) return {{"error", graph.message()}};
  const auto shapes = InferShapes(*graph, batch);
  if (!shapes.ok()) return {{"error", shapes.message()}};
  const std::vector<ParameterCounts> own = OwnParameters(*graph, *shapes);
  json dumped;
  dumped["parameters"] = *ParameterCount(*graph);
  dumped["nodes"] = json::array();
  for (size_t id = 0; id < graph->nodes.size(); ++id) {
    const Node& node = graph->nodes[id];
    const Shape& shape = (*shapes)[id];
    PlannedLayer layer;
    layer.op = node.op;
    layer.output = shape;
    for (const NodeId input : node.inputs) {
      layer.inputs.push_back({input, (*shapes)[static_cast<size_t>(input)]});
    }
    json made = {
        {"name", node.name},
        {"op", kOperatorNames[node.op.index()]},
        {"inputs", node.inputs},
        {"shape", {shape.n, shape.c, shape.extents[0], shape.extents[1], shape.extents[2]}},
        {"parameters", own[id].trained}};
    made["parts"] = made["needed"] = json::object();
    if (!node.inputs.empty()) AddDivisions(layer, made);
    dumped["nodes"].push_back(made);
  }
  dumped["tensors"] = json::object();
  for (const auto& [name, tensor] : tensors) dumped["tensors"][name] = Described(tensor, batch);
  return dumped;
}

}  // namespace
}  // namespace ucudnn::planner

int main(int argc, char** argv) {
  int batch = 2;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--batch" && i + 1 < argc) {
      batch = std::atoi(argv[++i]);
      continue;
    }
    std::printf("%s\n", ucudnn::planner::Dump(word, batch).dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}
