// What the environment of a program must hold so that it runs with the drop-in in front of cuDNN,
// on the GPU or on the CPU stand-ins. Used from main's thread only.
#pragma once

#include <string>

#include "base/status.h"
#include "command/command.h"
#include "command/installation.h"
#include "command/run/reach.h"

namespace ucudnn::command {

// The value of an environment variable; empty when it is unset.
std::string Environment(const char* name);

struct Launch {
  bool host = false;           // on the stand-ins
  bool off = false;            // without the drop-in, to compare with
  std::string dlsym = "auto";  // as ParseDlsymHook
  // The stand-in's settings; empty: as they are.
  std::string devices;
  std::string device_memory;
};

// Adds --dlsym.
void AddDlsym(CLI::App& app, Launch& launch);

// How `program`, the file that the first of `words` means, and what it starts will be reached. The
// error names what `launch.dlsym` may be.
Result<Reach> ReachOf(const Launch& launch, const std::string& program, const ProgramWords& words);

// Sets this process's environment for the program it is about to become or to start. The error
// names what is missing or has no form.
Status SetLaunchEnvironment(const Launch& launch, const Reach& reach,
                            const VariableOptions& variables);

}  // namespace ucudnn::command
