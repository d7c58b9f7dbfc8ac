#include "planner/graph/network_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
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

// Removes a varint of protocol buffers (7 bits per byte) from the front of `bytes`. Returns false
// if `bytes` end inside it.
bool TakeVarint(std::string_view& bytes, uint64_t& number) {
  number = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Returns whether `bytes` begin as an ONNX model does, with ir_version (field 1), and end inside a
// field.
bool IsCutOffModel(std::string_view bytes) {
  if (!bytes.starts_with('\x08')) return false;
  while (!bytes.empty()) {
    uint64_t tag = 0, size = 0;
    if (!TakeVarint(bytes, tag)) return true;
    switch (tag % 8) {
      case 0:
        if (!TakeVarint(bytes, size)) return true;
        size = 0;
        break;
      case 1:
        size = 8;
        break;
      case 2:
        if (!TakeVarint(bytes, size)) return true;
        break;
      case 5:
        size = 4;
        break;
      default:
        return false;
    }
    if (size > bytes.size()) return true;
    bytes.remove_prefix(size);
  }
  return false;
}

// Returns what `text` seems to be instead of a network, such as an HTML page or a truncated model;
// empty if it is none of the known mistakes.
std::string StrayFile(const std::string& text, const std::string& ending) {
  const std::string_view start = Trim(std::string_view(text).substr(0, 256));
  const auto begins = [&](std::string_view with) {
    return EqualsIgnoreCase(start.substr(0, with.size()), with);
  };
  if (text.empty()) return "the file is empty";
  if (begins("version https://git-lfs.github.com/")) {
    return "a pointer of git-lfs, in place of the file; `git lfs pull` fetches it";
  }
  if (begins("<!doctype html") || begins("<html")) {
    return "an HTML page, as the download of a page about the file gives";
  }
  if (ending == ".onnx" && IsCutOffModel(text)) {
    return "the file ends inside the model, as a download that broke off leaves it";
  }
  if (ending != ".onnx" && text.find('\0') != std::string::npos) {
    return "bytes that are no text" +
           std::string(ending == ".prototxt" ? ", as of a .caffemodel; expected the .prototxt"
                                             : "");
  }
  return {};
}

Result<Graph> LoadJson(const std::string& text, const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(Graph graph, ParseNetJson(text, path));
  const std::string name = std::exchange(graph.name, path);
  UCUDNN_RETURN_IF_ERROR(CheckConnected(graph));
  graph.name = name;
  return graph;
}

Result<Graph> LoadOnnx(const std::string& text, const std::string& path, ImportOptions options) {
  options.folder = std::filesystem::path(path).parent_path();
  if (options.folder.empty()) options.folder = ".";
  const std::vector<int32_t>& input = options.input;
  if (input.size() >= 2) options.size = {input[input.size() - 2], input.back()};
  UCUDNN_ASSIGN_OR_RETURN(Graph graph, ImportOnnx(text, path, options));
  if (input.empty()) return graph;
  for (const Node& node : graph.nodes) {
    const auto* images = std::get_if<Input>(&node.op);
    if (images == nullptr || images->channels != input.front()) continue;
    if (images->extents[1] == options.size[0] && images->extents[2] == options.size[1]) {
      return graph;
    }
  }
  return Status::Error(path + ": none of its inputs has the channels and the extents given; " +
                       "expected them where the file leaves extents open");
}

}  // namespace

Result<Graph> LoadNetwork(const std::string& name_or_file, const ImportOptions& options) {
  const std::string ending = std::filesystem::path(name_or_file).extension();
  if (!options.input.empty() && ending != ".prototxt" && ending != ".onnx") {
    return Status::Error(Quoted(name_or_file) +
                         ": images can be given for a .prototxt or a .onnx, and this is none");
  }
  const bool known = ending == ".onnx" || ending == ".prototxt" || ending == ".json";
  if (!known) {
    if (name_or_file.find('/') == std::string::npos) return BuildNetwork(name_or_file);
    return Status::Error(Quoted(name_or_file) +
                         ": expected FILE.onnx, FILE.prototxt, FILE.json or " + "one of " +
                         Join(NetworkNames(), ", "));
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(name_or_file));
  if (const std::string stray = StrayFile(text, ending); !stray.empty()) {
    return Status::Error(name_or_file + ": " + stray);
  }
  if (ending == ".onnx") return LoadOnnx(text, name_or_file, options);
  if (ending == ".prototxt") return ImportCaffe(text, name_or_file, options);
  return LoadJson(text, name_or_file);
}

}  // namespace ucudnn::planner
