// `ucudnn net`: a network as a `ucudnn-net` file.
#include <memory>
#include <string>

#include "command/command.h"
#include "command/layer_list.h"
#include "command/output_file.h"
#include "planner/graph/formats/net_json.h"
#include "planner/graph/network_file.h"

namespace ucudnn::command {
namespace {

struct NetOptions {
  std::string net;
  bool pass_through = false;
  std::string input;
  std::string output;
};

int WriteNet(const CLI::App& app, const NetOptions& options) {
  const auto reading = ParseImport(options.pass_through, options.input);
  if (!reading.ok()) return Refuse(app, reading.message());
  const Result<planner::Graph> graph = planner::LoadNetwork(options.net, *reading);
  if (!graph.ok()) return Refuse(app, graph.message());
  return WriteOutput(app, planner::WriteNetJson(*graph), options.output);
}

}  // namespace

Command AddNet(CLI::App& ucudnn) {
  auto options = std::make_shared<NetOptions>();
  CLI::App* app = AddSubcommand(ucudnn, "net", "net NET [OPTIONS]",
                                "write a network as a ucudnn-net file, which every command reads");
  app->add_option("NET", options->net,
                  "FILE.onnx, FILE.prototxt (Caffe), FILE.json (ucudnn-net),\n"
                  "or a built-in network (any other word lists them)")
      ->required()
      ->type_name("");
  app->add_flag("--pass-through", options->pass_through,
                "operators of a file that are not known pass their input through")
      ->disable_flag_override();
  AddInput(*app, options->input);
  app->add_option("-o", options->output, "write to a file instead of the terminal")
      ->type_name("FILE");
  return {app, [app, options](const ProgramWords&) { return WriteNet(*app, *options); }};
}

}  // namespace ucudnn::command
