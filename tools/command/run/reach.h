// How a program can be reached. Preloading the drop-in nearly always suffices; a program that opens
// cuDNN by its path, and looks its functions up on that handle, also needs the dlsym hook. This is
// found beforehand from the files and words of the command: the program, the programs and scripts
// that its arguments name (as behind env, timeout or mpirun), the files that those scripts name in
// turn, and the modules of each Python among them. Reads files, starts nothing. Thread-compatible.
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
  std::string user_base;     // the folder of packages that the user installed alone; empty: none
  std::string xla_path;      // XLA_GPU_LIBRARY_PATH: folders from which XLA opens libraries by path
};

// Chooses for `program`, a file (of FindProgram), and the words behind it, `arguments`.
Reach ChooseReach(DlsymHook wanted, const std::string& program,
                  const std::vector<std::string>& arguments, const ReachEnvironment& environment);

// Returns whether `program` takes its instructions from a file or a text: a shell or a Python.
bool ReadsScripts(const std::string& program);

}  // namespace ucudnn::command
