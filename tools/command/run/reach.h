// How a program can be reached. Preloading the drop-in nearly always suffices; but a program that
// opens cuDNN by its path and looks up functions on that handle also needs the dlsym hook. Whether
// a program needs the hook is guessed before the start, from variables of the environment, from the
// words of the command, and from files. The files are the program, the programs and scripts that
// its arguments name (as behind env, timeout or mpirun), the files that these scripts name in turn,
// the libraries of the programs, and the modules of each Python among them. Only the first of many
// files and words are looked at. Only reads files, and starts nothing. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::command {

enum class DlsymHook { kAuto, kOn, kOff };

// Parses "auto", "on" or "off".
Result<DlsymHook> ParseDlsymHook(const std::string& text);

struct Reach {
  bool dlsym_hook = false;
  std::string reason;  // why the hook is used, or why not
};

// The variables that decide which files a program will load.
struct ReachEnvironment {
  std::string path;          // PATH
  std::string library_path;  // LD_LIBRARY_PATH
  std::string module_path;   // PYTHONPATH
  // The folder of packages that only this user installed; empty if there is none.
  std::string user_base;
  std::string xla_path;  // XLA_GPU_LIBRARY_PATH: folders from which XLA opens libraries by path
};

// Chooses for `program`, a file that FindProgram returned, and its `arguments`.
Reach ChooseReach(DlsymHook wanted, const std::string& program,
                  const std::vector<std::string>& arguments, const ReachEnvironment& environment);

// Returns whether `program` takes its instructions from a file or a text, as a shell or a Python
// does.
bool ReadsScripts(const std::string& program);

}  // namespace ucudnn::command
