// Options that select the convolutions of a command: from a layer file, a network or a report. Used
// from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/layer.h"
#include "planner/graph/formats/imported_graph.h"
#include "planner/graph/graph.h"

namespace ucudnn::command {

// Options for reading a network's file.
struct ImportWords {
  bool pass_through = false;
  std::string input;

  // Adds --pass-through, with the text `help`, and --input, for images whose channels and extents a
  // file does not give.
  void AddTo(CLI::App& app, const char* help =
                                "operators of a file that are not known pass their "
                                "input through");
  Result<planner::ImportOptions> Parse() const;
};

// Adds a required word or option for a network.
void AddNetwork(CLI::App& app, const char* name, std::string& net, const char* value = "");

// The values of the options, which CLI11 stores in the members.
struct LayerSource {
  std::string layers;
  std::string net;
  ImportWords reading;
  std::string size;
  std::string trace;
  std::string batch;
  std::string ops = "forward,backward_data,backward_filter";

  // Adds --layers, --net, --pass-through, --input, --size, --trace, --batch and --ops. The object
  // must live as long as `app`.
  void AddTo(CLI::App& app);
};

// Parses --batch: the number of images, 1 or more.
Result<int> ParseBatch(const std::string& text);

// Adds --size, for a network's images.
void AddSize(CLI::App& app, std::string& size);

// Returns the network of --net. If `size` (--size) is not empty, the images have that size: an
// extent for each spatial axis, or one for all of them. The error names the option.
Result<planner::Graph> LoadNetworkOfSize(const std::string& net, planner::ImportOptions reading,
                                         const std::string& size);

// Lists each layer once for each operation. An error means bad usage, and names the option or the
// place in the file.
Result<std::vector<Layer>> ListLayers(const LayerSource& source);

}  // namespace ucudnn::command
