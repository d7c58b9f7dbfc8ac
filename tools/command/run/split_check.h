// The check of `ucudnn run` for splitting images over ranks. It refuses settings with which every
// call of the program would fail. Used from main's thread only; reads the environment.
#pragma once

#include <string>

#include "base/status.h"
#include "command/command.h"

namespace ucudnn::command {

struct SplitSettings {
  int ranks = 0;        // --ranks; 0 without this option
  bool off = false;     // --off
  std::string program;  // path of the program's file
  ProgramWords words;   // the program's name as the user wrote it, and its arguments
};

// Fails if the settings must be refused. `variables` are the options of the command line, which
// take precedence over the environment.
Status CheckSplit(const SplitSettings& settings, const VariableOptions& variables);

}  // namespace ucudnn::command
