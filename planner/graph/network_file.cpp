#include "planner/graph/network_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "planner/graph/connected.h"
#include "planner/graph/formats/caffe.h"
#include "planner/graph/formats/net_json.h"
#include "planner/graph/formats/onnx.h"
#include "planner/graph/networks.h"

namespace ucudnn::planner {
namespace {

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> buffer;
  do {
    file.read(buffer.data(), buffer.size());
    text.append(buffer.data(), static_cast<size_t>(file.gcount()));
  } while (file);
  if (!file.eof()) return Status::Error(path + ": cannot be read: " + std::strerror(errno));
  return text;
}

Result<Graph> LoadJson(const std::string& text, const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(Graph graph, ParseNetJson(text, path));
  const std::string name = std::exchange(graph.name, path);
  UCUDNN_RETURN_IF_ERROR(CheckConnected(graph));
  graph.name = name;
  return graph;
}

}  // namespace

Result<Graph> LoadNetwork(const std::string& name_or_file, const ImportOptions& options) {
  const std::string ending = std::filesystem::path(name_or_file).extension();
  if (!options.input.empty() && ending != ".prototxt") {
    return Status::Error(Quoted(name_or_file) +
                         ": the images of Caffe's data layers can be given, " +
                         "and this is no .prototxt");
  }
  const bool known = ending == ".onnx" || ending == ".prototxt" || ending == ".json";
  if (!known) {
    if (name_or_file.find('/') == std::string::npos) return BuildNetwork(name_or_file);
    return Status::Error(Quoted(name_or_file) +
                         ": expected FILE.onnx, FILE.prototxt, FILE.json or " + "one of " +
                         Join(NetworkNames(), ", "));
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(name_or_file));
  if (ending == ".onnx") {
    ImportOptions with_folder = options;
    with_folder.folder = std::filesystem::path(name_or_file).parent_path();
    if (with_folder.folder.empty()) with_folder.folder = ".";
    return ImportOnnx(text, name_or_file, with_folder);
  }
  if (ending == ".prototxt") return ImportCaffe(text, name_or_file, options);
  return LoadJson(text, name_or_file);
}

}  // namespace ucudnn::planner
