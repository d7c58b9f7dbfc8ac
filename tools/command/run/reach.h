// How a program can be reached: nearly all by preloading the drop-in; those that open cuDNN by its
// path, and look its functions up on that handle, with the dlsym hook besides. Seen beforehand in
// the files and words of the command: the program, the programs and scripts that its arguments name
// (as behind env, timeout or mpirun), what those scripts name in turn, the modules of each Python
// among them. Reads files, starts nothing. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::command {

enum class DlsymHook { kAuto, kOn, kOff };

// "auto", "on" or "off".
Result<DlsymHook> ParseDlsymHook(const std::string& text);

struct Reach {
  bool dlsym_hook = false;
  std::string reason;  // why the hook is there, or why it is not
};

// The variables that decide what a program will load.
struct ReachEnvironment {
  std::string path;          // PATH
  std::string library_path;  // LD_LIBRARY_PATH
  std::string module_path;   // PYTHONPATH
  std::string user_base;     // the folder of packages that the user installed alone; empty: none
  std::string xla_path;      // XLA_GPU_LIBRARY_PATH: folders XLA opens libraries in by path
};

// `program` is a file (FindProgram's), `arguments` the words behind it.
Reach ChooseReach(DlsymHook wanted, const std::string& program,
                  const std::vector<std::string>& arguments, const ReachEnvironment& environment);

// Whether `program` reads what to do from a file or a text: a shell or a Python.
bool ReadsScripts(const std::string& program);

}  // namespace ucudnn::command
