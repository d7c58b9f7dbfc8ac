// What `ucudnn run` says beforehand about splitting images over ranks: settings with which every
// call of the program would be refused. Used from main's thread only; reads the environment.
#pragma once

#include <string>

#include "base/status.h"
#include "command/command.h"

namespace ucudnn::command {

struct SplitSettings {
  int ranks = 0;        // that the command starts itself; 0: none
  bool off = false;     // --off
  std::string program;  // a file
  ProgramWords words;   // its name as it was written, and its arguments
};

// `variables` are the options of the command line, which win over the environment.
Status CheckSplit(const SplitSettings& settings, const VariableOptions& variables);

}  // namespace ucudnn::command
