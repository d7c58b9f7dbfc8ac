// Chooses what makes a program's calls reach the drop-in. Preloading the drop-in nearly always
// suffices. A program that opens cuDNN by its path and looks up functions on the handle from dlopen
// also needs the dlsym hook. Whether a program needs the hook is guessed before the start, from the
// environment, the words of the command, and files:
//  - the program, and the programs and scripts that its arguments name (as for env or mpirun),
//  - files that these scripts name in turn,
//  - the libraries of the programs, and the modules of each Python among them.
// If there are very many files or words, only the first are examined. Only reads files, and starts
// nothing. Thread-compatible.
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

// Chooses for the file `program`, which FindProgram returned, and its `arguments`. kOn and kOff in
// `wanted` decide; with kAuto, guesses.
Reach ChooseReach(DlsymHook wanted, const std::string& program,
                  const std::vector<std::string>& arguments, const ReachEnvironment& environment);

// Returns whether `program` is a shell or a Python, by its name.
bool ReadsScripts(const std::string& program);

}  // namespace ucudnn::command
