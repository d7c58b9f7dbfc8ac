// The environment in which a program runs with the drop-in in front of cuDNN, on the GPU or on the
// CPU stand-ins. Used from main's thread only.
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
  // Settings of the stand-in; an empty text leaves the setting unchanged.
  std::string devices;
  std::string device_memory;
};

// Adds --dlsym.
void AddDlsym(CLI::App& app, Launch& launch);

// Determines how to reach `program` (the file of words[0]) and the programs that it starts. If
// launch.dlsym is wrong, the error lists the values that it accepts.
Result<Reach> ReachOf(const Launch& launch, const std::string& program, const ProgramWords& words);

// Sets this process's environment for the program that it will become or start. The error names
// what is missing or malformed.
Status SetLaunchEnvironment(const Launch& launch, const Reach& reach,
                            const VariableOptions& variables);

}  // namespace ucudnn::command
