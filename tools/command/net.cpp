// `ucudnn net`: writes a network as a `ucudnn-net` file.
#include <memory>
#include <string>

#include "command/command.h"
#include "command/layer_list.h"
#include "planner/graph/formats/net_json.h"
#include "planner/graph/network_file.h"

namespace ucudnn::command {
namespace {

struct NetOptions {
  std::string net;
  ImportWords reading;
  std::string output;
};

Result<int> WriteNet(const CLI::App& app, const NetOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto reading, options.reading.Parse());
  UCUDNN_ASSIGN_OR_RETURN(const planner::Graph graph, planner::LoadNetwork(options.net, reading));
  return WriteOutput(app, planner::WriteNetJson(graph), options.output);
}

}  // namespace

Command AddNet(CLI::App& ucudnn) {
  auto options = std::make_shared<NetOptions>();
  CLI::App* app = AddSubcommand(ucudnn, "net", "net NET [OPTIONS]",
                                "write a network as a ucudnn-net file, which every command reads");
  AddNetwork(*app, "NET", options->net);
  options->reading.AddTo(*app);
  AddOption(*app, "-o", options->output, "FILE", "write to a file instead of the terminal");
  return {app, [app, options](const ProgramWords&) { return WriteNet(*app, *options); }};
}

}  // namespace ucudnn::command
