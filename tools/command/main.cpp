// The `ucudnn` command. Its exit codes are the subcommand's; 2 for bad usage; and 1 if stdout
// cannot be written or an exception ends the command. Each failure is one line on stderr.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/version.h"
#include "command/command.h"
#include "command/usage.h"

namespace ucudnn::command {
namespace {

constexpr const char* kUsage =
    "Usage: ucudnn COMMAND [OPTIONS]\n"
    "`ucudnn COMMAND --help` tells about one command.\n";

class MainHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override { return kUsage; }
};

// Flushes stdout and returns `code`. If stdout could not be written, for example because the disk
// is full, prints a message and returns a failure.
int Finish(const CLI::App& app, int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  // If an earlier write failed, errno no longer has the reason, so the message names likely ones.
  const std::string why = errno != 0 ? std::strerror(errno) : "no room, or nobody who reads it";
  if (flushed && std::ferror(stdout) == 0 && std::cout.good()) return code;
  return Refuse(app, "cannot be printed: " + why, code != 0 ? code : kFailed);
}

int Main(int argc, char** argv) {
  // The words after "--" are a program and its arguments, which are not parsed here.
  const std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  const auto separator = std::find(all.begin(), all.end(), "--");
  std::vector<std::string> ours(all.begin(), separator);
  const ProgramWords program(separator == all.end() ? separator : separator + 1, all.end());
  // If nothing reads the output any more, this process ends silently, as `ls` does, even if its
  // parent ignores SIGPIPE. If there is a program to start, the parent's setting stays, because the
  // program must inherit that setting.
  if (program.empty()) std::signal(SIGPIPE, SIG_DFL);

  CLI::App app("Micro-batched cuDNN convolutions for unmodified programs.", "ucudnn");
  app.formatter(std::make_shared<MainHelp>());
  app.get_help_ptr()->description("print this text");
  app.set_version_flag("--version", std::string("ucudnn ") + kVersion)
      ->description("print the version");
  const std::vector<Command> commands = {
      AddRun(app),       AddBench(app), AddNet(app),       AddPlan(app),   AddSpatial(app),
      AddMultigrid(app), AddCache(app), AddWorkspace(app), AddReport(app), AddDoctor(app)};

  std::reverse(ours.begin(), ours.end());  // app.parse() expects the words in reverse order
  try {
    app.parse(ours);
  } catch (const CLI::Success& success) {
    return Finish(app, app.exit(success));
  } catch (const CLI::ParseError& error) {
    return Refuse(ChosenCommand(app), ExplainError(app, error));
  }
  if (Status status = CheckWords(ChosenCommand(app)); !status.ok()) {
    return Refuse(ChosenCommand(app), status.message());
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    if (separator != all.end() && !command.takes_program) {
      return Refuse(*command.app, "takes no program; -- belongs to run and doctor");
    }
    if (separator != all.end() && program.empty()) {
      return Refuse(*command.app,
                    "no program behind --, as in `" + FullName(*command.app) + " -- python3 a.py`");
    }
    const CLI::App& chosen = ChosenCommand(app);
    const Result<int> code = command.run(program);
    return Finish(chosen, code.ok() ? *code : Refuse(chosen, code.message()));
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
