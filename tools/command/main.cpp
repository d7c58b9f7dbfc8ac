// The `ucudnn` command. Exit codes: the command's own, 2 for bad usage (one line on stderr).
#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/version.h"
#include "command/command.h"

namespace ucudnn::command {
namespace {

constexpr const char* kUsage =
    "Usage: ucudnn COMMAND [OPTIONS]\n"
    "`ucudnn COMMAND --help` tells about one command.\n";

class MainHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override { return kUsage; }
};

// CLI11's own words, but for what they leave unclear.
std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extra = app.remaining(true);
    const std::string word = extra.empty() ? "" : extra.front();
    if (word.starts_with("-")) return word + " is not an option; see --help";
    if (const std::string names = Subcommands(app); !names.empty()) {
      return "'" + word + "' is none of its commands: " + names;
    }
    if (app.get_name() == "run" || app.get_name() == "doctor") {
      return "'" + word + "' is not expected; the program is written behind --, as in `ucudnn " +
             app.get_name() + " -- " + word + "`";
    }
    return "'" + word + "' is not expected; see --help";
  }
  return error.what();
}

const CLI::App& Innermost(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : Innermost(*chosen.front());
}

int Main(int argc, char** argv) {
  // The program's words are not ours to parse.
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const auto separator = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> ours(words.begin(), separator);
  const ProgramWords program(separator == words.end() ? separator : separator + 1, words.end());

  CLI::App app("Micro-batched cuDNN convolutions for unmodified programs.", "ucudnn");
  app.formatter(std::make_shared<MainHelp>());
  app.get_help_ptr()->description("print this text");
  app.set_version_flag("--version", std::string("ucudnn ") + kVersion)
      ->description("print the version");
  const std::vector<Command> commands = {AddRun(app),   AddBench(app),     AddPlan(app),
                                         AddCache(app), AddWorkspace(app), AddReport(app),
                                         AddDoctor(app)};

  std::reverse(ours.begin(), ours.end());  // CLI11 takes words from the end
  try {
    app.parse(ours);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    if (app.get_subcommands().empty() && !app.remaining().empty() &&
        !app.remaining().front().starts_with("-")) {
      return Refuse(app, "'" + app.remaining().front() + "' is not a command; the commands are " +
                             Subcommands(app));
    }
    const CLI::App& inner = Innermost(app);
    return Refuse(inner, Explain(inner, error));
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    if (separator != words.end() && !command.takes_program) {
      return Refuse(*command.app, "takes no program; -- belongs to run and doctor");
    }
    return command.run(program);
  }
  return Refuse(app, "which command? One of " + Subcommands(app) + "; see --help");
}

}  // namespace
}  // namespace ucudnn::command

int main(int argc, char** argv) try {
  return ucudnn::command::Main(argc, argv);
} catch (const std::exception& error) {
  std::cerr << "ucudnn: " << error.what() << "\n";
  return 1;
}
