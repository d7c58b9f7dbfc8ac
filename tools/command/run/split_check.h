// Checks of `ucudnn run` for splitting images over ranks: refuses settings with which every call of
// the program would fail. Used from main's thread only; reads the environment.
#pragma once

#include <string>

#include "base/status.h"
#include "command/command.h"

namespace ucudnn::command {

struct SplitSettings {
  int ranks = 0;        // ranks that the command itself starts; 0 if it starts none
  bool off = false;     // --off
  std::string program;  // a file
  ProgramWords words;   // its name as written, and its arguments
};

// `variables` are the options of the command line, which take precedence over the environment.
Status CheckSplit(const SplitSettings& settings, const VariableOptions& variables);

}  // namespace ucudnn::command
