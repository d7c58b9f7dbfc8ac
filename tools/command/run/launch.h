// Sets up the environment in which a program runs with the drop-in in front of cuDNN, on the GPU or
// on the CPU stand-ins. Used from main's thread only.
#pragma once

#include <string>

#include "base/status.h"
#include "command/command.h"
#include "command/installation.h"
#include "command/run/reach.h"

namespace ucudnn::command {

// Returns the value of an environment variable; empty if it is unset.
std::string Environment(const char* name);

struct Launch {
  bool host = false;           // whether to use the CPU stand-ins
  bool off = false;            // whether to leave out the drop-in, for comparison
  std::string dlsym = "auto";  // "auto", "on" or "off" (ParseDlsymHook)
  // The stand-in's number of devices and memory of a device; empty: the stand-in's default.
  std::string devices;
  std::string device_memory;
};

// Adds --dlsym.
void AddDlsym(CLI::App& app, Launch& launch);

// Chooses whether `program` (the file of words[0]) and the programs that it starts need the dlsym
// hook. If launch.dlsym is wrong, the error lists the values that it accepts.
Result<Reach> ReachOf(const Launch& launch, const std::string& program, const ProgramWords& words);

// Changes this process's environment, which the program will inherit. The error names the library
// that is missing, or whose path cannot be in LD_PRELOAD.
Status SetLaunchEnvironment(const Launch& launch, const Reach& reach,
                            const VariableOptions& variables);

}  // namespace ucudnn::command
