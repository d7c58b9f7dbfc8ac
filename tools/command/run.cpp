// `ucudnn run`: starts a program with the drop-in in front of cuDNN, on the GPU or on the CPU
// stand-ins.
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "command/command.h"
#include "command/installation.h"
#include "command/launch.h"
#include "command/program.h"

namespace ucudnn::command {
namespace {

constexpr int kMostDevices = 64;  // of the stand-in

struct RunOptions {
  Launch launch;
  CLI::Option* devices_given = nullptr;
  CLI::Option* device_memory_given = nullptr;
  VariableOptions variables;
};

Status CheckDevices(const RunOptions& options) {
  for (const auto* given : {options.devices_given, options.device_memory_given}) {
    if (given->count() > 0 && !options.launch.host) {
      return Status::Error(given->get_name() + " is the stand-in's: it needs --host");
    }
  }
  if (options.devices_given->count() > 0) {
    int devices = 0;
    const char* const end = options.launch.devices.data() + options.launch.devices.size();
    const auto [stop, error] = std::from_chars(options.launch.devices.data(), end, devices);
    if (error != std::errc() || stop != end || devices < 1 || devices > kMostDevices) {
      return Status::Error("--devices '" + options.launch.devices + "': not a number from 1 to " +
                           std::to_string(kMostDevices));
    }
  }
  if (options.device_memory_given->count() > 0) {
    const Result<size_t> bytes = ParseByteSize(options.launch.device_memory);
    if (!bytes.ok()) return Status::Error("--device-memory: " + bytes.message());
    if (*bytes == 0) return Status::Error("--device-memory '0': a device needs memory");
  }
  return Status::Ok();
}

Status Run(const RunOptions& options, const ProgramWords& words) {
  if (words.empty()) {
    return Status::Error("no program; it is written behind --, as in `ucudnn run -- python3 a.py`");
  }
  UCUDNN_RETURN_IF_ERROR(options.variables.Check());
  UCUDNN_RETURN_IF_ERROR(options.variables.CheckBudget());
  UCUDNN_RETURN_IF_ERROR(CheckDevices(options));
  UCUDNN_ASSIGN_OR_RETURN(const std::string program, FindProgram(words[0], Environment("PATH")));
  const Installation installation = FindInstallation();
  if (options.launch.host || !options.launch.off) UCUDNN_RETURN_IF_ERROR(CheckPreload(program));
  if (options.launch.host) {
    UCUDNN_RETURN_IF_ERROR(
        CheckHost(program, installation.host_folder, Environment("LD_LIBRARY_PATH")).status());
  }
  UCUDNN_ASSIGN_OR_RETURN(const Reach reach, ReachOf(options.launch, program, words));
  UCUDNN_RETURN_IF_ERROR(SetLaunchEnvironment(options.launch, reach, options.variables));
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(program.c_str(), arguments.data());
  return Status::Error("'" + program + "' cannot be started: " + std::strerror(errno));
}

}  // namespace

Command AddRun(CLI::App& ucudnn) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* app = AddSubcommand(ucudnn, "run", "run [OPTIONS] -- PROGRAM [ARG...]",
                                "start a program with its convolutions micro-batched");
  app->add_flag(
         "--host", options->launch.host,
         "run on the CPU stand-in: for programs that use the shared CUDA 13 runtime and cuDNN 9 "
         "and launch no GPU kernels of their own")
      ->disable_flag_override();
  options->devices_given =
      app->add_option("--devices", options->launch.devices, "the stand-in's number of devices (1)");
  options->device_memory_given = app->add_option("--device-memory", options->launch.device_memory,
                                                 "the stand-in's memory per device (4GiB)");
  options->devices_given->type_name("N");
  options->device_memory_given->type_name("SIZE");
  app->add_flag("--off", options->launch.off, "leave the program's cuDNN as it is, to compare with")
      ->disable_flag_override();
  AddDlsym(*app, options->launch);
  options->variables.AddTo(*app);
  return {app,
          [app, options](const ProgramWords& program) {
            return Refuse(*app, Run(*options, program).message());
          },
          true};
}

}  // namespace ucudnn::command
