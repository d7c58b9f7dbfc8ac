// The facts about a process that can be observed from outside: its program, the files that the
// loader mapped, and its environment. They come from /proc if the process runs, and from the
// loader's log (LD_DEBUG) if it has ended. What the process wrote is treated as untrusted text.
// Thread-compatible.
#pragma once

#include <sys/types.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "base/status.h"
#include "command/doctor/machine_check.h"

namespace ucudnn::command {

struct OpenedLibrary {
  std::string path;
  std::string by;  // the object whose code asked for the library
};

// An object whose calls of cuDNN's functions the loader bound to a library.
struct CudnnBinding {
  std::string user;     // the object that calls; equal to `library` if dlsym was called
  std::string library;  // the file that defines the functions
};

struct ProcessView {
  pid_t pid = 0;
  std::string program;  // file of the program
  std::vector<std::string>
      objects;            // files that the loader mapped, each once, with the process's own paths
  VariableMap variables;  // its environment at its start
  bool secure = false;    // whether the process started with more rights than its user
  // Whether the process is in another mount namespace, such as a container.
  bool elsewhere = false;
  std::string root;      // the prefix to put before its paths to read them; empty if none is needed
  std::string folder;    // its working folder
  bool has_log = false;  // whether the loader's log is known; the members below come from it
  std::vector<OpenedLibrary> opened;   // libraries that dlopen loaded, not those loaded before
  std::vector<std::string> reopened;   // all paths that dlopen returned, loaded before or not
  std::vector<std::string> repeated;   // paths that dlopen returned more than once
  std::vector<CudnnBinding> bindings;  // without duplicates
};

// Fails unless `pid` is a process that runs a program.
Status CheckProcess(pid_t pid);

// Observes a running process. The error says why this is impossible: no permission, or the process
// has just ended. REQUIRES: CheckProcess(pid) succeeded.
Result<ProcessView> ViewRunningProcess(pid_t pid);

// Reads the log that the loader wrote for one process with LD_DEBUG=files,bindings.
ProcessView ReadLoaderLog(std::istream& log);

}  // namespace ucudnn::command
