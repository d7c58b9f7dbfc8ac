// `ucudnn run`: starts a program with the drop-in in front of cuDNN, on the GPU or on the CPU
// stand-ins.
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/shared_library.h"
#include "base/text.h"
#include "command/command.h"
#include "command/file_check.h"
#include "command/installation.h"
#include "command/numbers.h"
#include "command/ranks/ranks.h"
#include "command/run/launch.h"
#include "command/run/program.h"
#include "command/run/split_check.h"

namespace ucudnn::command {
namespace {

constexpr int kMostDevices = 64;  // devices of the stand-in

struct RunOptions {
  Launch launch;
  std::string ranks;  // the value of --ranks; empty if not given
  CLI::Option* devices_given = nullptr;
  CLI::Option* device_memory_given = nullptr;
  VariableOptions variables;
};

Result<int> CheckCount(const std::string& option, const std::string& text, int most) {
  return ParseWhole(option, text, 1, most, "not a number from 1 to " + std::to_string(most));
}

// Returns the number of ranks; 0 without --ranks.
Result<int> RanksOf(const RunOptions& options) {
  return options.ranks.empty() ? 0 : CheckCount("--ranks", options.ranks, kMostRanks);
}

Status CheckDevices(const RunOptions& options) {
  for (const auto* given : {options.devices_given, options.device_memory_given}) {
    if (given->count() > 0 && !options.launch.host) {
      return Status::Error(given->get_name() + " is the stand-in's: it needs --host");
    }
  }
  if (options.devices_given->count() > 0) {
    UCUDNN_RETURN_IF_ERROR(CheckCount("--devices", options.launch.devices, kMostDevices).status());
  }
  if (options.device_memory_given->count() > 0) {
    const Result<size_t> bytes = ParseByteSize(options.launch.device_memory);
    if (!bytes.ok()) return Status::Error("--device-memory: " + bytes.message());
    if (*bytes == 0) {
      return Status::Error("--device-memory '0': a device needs memory, as 4GiB");
    }
  }
  return Status::Ok();
}

// Checks the options, without looking at the program.
Status CheckOptions(const RunOptions& options) {
  UCUDNN_RETURN_IF_ERROR(options.variables.Check());
  UCUDNN_RETURN_IF_ERROR(options.variables.CheckBudget());
  UCUDNN_RETURN_IF_ERROR(ParseDlsymHook(options.launch.dlsym).status());
  UCUDNN_RETURN_IF_ERROR(CheckDevices(options));
  UCUDNN_RETURN_IF_ERROR(RanksOf(options).status());
  return options.launch.off ? Status::Ok() : CheckFilesOfRun(options.variables);
}

// Prints lines about options and stores that have no effect, and about a missing CUDA driver.
void TellOfUnserved(const CLI::App& app, const RunOptions& options) {
  if (options.launch.off) {
    const std::vector<std::string> flags = options.variables.GivenFlags();
    if (flags.empty()) return;
    return Tell(app, Join(flags, ", ") + (flags.size() == 1 ? " is" : " are") +
                         " not applied: --off leaves the program's cuDNN as it is");
  }
  for (const std::string& line : MissingStores(options.variables)) Tell(app, line);
  if (!options.launch.host && !SharedLibrary::Open("libcuda.so.1").ok()) {
    Tell(app,
         "there is no CUDA driver (libcuda.so.1), so nothing is changed; --host runs a program on "
         "the CPU stand-in");
  }
}

// Fails if the program cannot run with the libraries that the options preload.
Status CheckServed(const RunOptions& options, const std::string& program) {
  if (options.launch.host || !options.launch.off) UCUDNN_RETURN_IF_ERROR(CheckPreload(program));
  if (!options.launch.host) return Status::Ok();
  return CheckHost(program, FindInstallation().host_folder, Environment("LD_LIBRARY_PATH"))
      .status();
}

// Gives the stand-in a device for each rank, because programs choose a device by LOCAL_RANK. Does
// nothing if the user sets the number of devices.
Launch WithDevices(Launch launch, int ranks) {
  if (ranks > 0 && launch.devices.empty() && Environment("HOSTGPU_DEVICES").empty()) {
    launch.devices = std::to_string(ranks);
  }
  return launch;
}

// Runs the program. Returns only if the program was not started, or if it ran as ranks.
Result<int> Run(const CLI::App& app, const RunOptions& options, const ProgramWords& words) {
  if (words.empty()) {
    return Status::Error("no program; it is written behind --, as in `ucudnn run -- python3 a.py`");
  }
  UCUDNN_RETURN_IF_ERROR(CheckOptions(options));
  const FoundProgram found = FindProgram(words[0], Environment("PATH"));
  const std::string& program = found.path;
  if (!found.can_run.ok()) {
    return Refuse(app, found.can_run.message(), program.empty() ? kNotFound : kCannotRun);
  }
  // Does not refuse the file if --off is given: the system may have an emulator for programs of
  // other architectures.
  if (Status image = CheckImage(program); !image.ok() && !options.launch.off) {
    return Refuse(app, image.message(), kCannotRun);
  }
  const int ranks = *RanksOf(options);
  const SplitSettings split = {ranks, options.launch.off, program, words};
  UCUDNN_RETURN_IF_ERROR(CheckSplit(split, options.variables));
  UCUDNN_RETURN_IF_ERROR(CheckServed(options, program));
  const Launch launch = WithDevices(options.launch, ranks);
  UCUDNN_ASSIGN_OR_RETURN(const Reach reach, ReachOf(launch, program, words));
  UCUDNN_RETURN_IF_ERROR(SetLaunchEnvironment(launch, reach, options.variables));
  TellOfUnserved(app, options);
  if (ranks > 0) return RunRanks(app, program, words, ranks);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(program.c_str(), arguments.data());
  return Refuse(app, WhyNotStarted(program, errno), kCannotRun);
}

}  // namespace

Command AddRun(CLI::App& ucudnn) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* app = AddSubcommand(ucudnn, "run", "run [OPTIONS] -- PROGRAM [ARG...]",
                                "start a program with its convolutions micro-batched");
  AddFlag(*app, "--host", options->launch.host,
          "run on the CPU stand-in: for programs that use the shared CUDA 13 runtime and cuDNN 9 "
          "and launch no GPU kernels of their own");
  options->devices_given =
      AddOption(*app, "--devices", options->launch.devices, "N",
                "the stand-in's number of devices (1; with --ranks, one for each rank)");
  options->device_memory_given = AddOption(*app, "--device-memory", options->launch.device_memory,
                                           "SIZE", "the stand-in's memory per device (4GiB)");
  AddOption(*app, "--ranks", options->ranks, "N",
            "start the program N times on this machine, as the ranks of one job, with the "
            "variables that\ntorchrun sets; lines of output stay whole, and the first exit "
            "code that is not 0 is the job's");
  AddFlag(*app, "--off", options->launch.off, "leave the program's cuDNN as it is, for comparison");
  AddDlsym(*app, options->launch);
  options->variables.AddTo(*app);
  return {app, [app, options](const ProgramWords& program) { return Run(*app, *options, program); },
          true};
}

}  // namespace ucudnn::command
