// Facts that can be observed about a process from outside: its program, the files that the loader
// mapped, its environment. The process is either running, and read from /proc, or has ended, and
// read from the loader's log (LD_DEBUG). Thread-compatible. Everything that the process wrote is
// taken as text and not trusted.
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

// Functions of cuDNN that the loader bound.
struct CudnnBinding {
  std::string user;  // the object that calls them; if it is `library`, they were looked up by dlsym
  std::string library;  // the file that defines them
};

struct ProcessView {
  pid_t pid = 0;
  std::string program;  // file of the program
  std::vector<std::string>
      objects;             // files that the loader mapped, each once, as the process names them
  VariableMap variables;   // its environment when it started
  bool secure = false;     // it started with more rights than its user
  bool elsewhere = false;  // in another mount namespace: a container
  std::string root;        // prefix of its paths to read them here; empty: none
  std::string folder;      // its working folder
  bool has_log = false;    // the loader's log is known: it gives the following members
  std::vector<OpenedLibrary> opened;   // libraries opened at run time that were not loaded before
  std::vector<std::string> reopened;   // paths that dlopen returned, new or not
  std::vector<std::string> repeated;   // paths that dlopen returned more than once
  std::vector<CudnnBinding> bindings;  // each pair once
};

// Fails unless `pid` is a process that runs a program.
Status CheckProcess(pid_t pid);

// Observes a running process. REQUIRES: CheckProcess(pid) was ok. The error says why it cannot be
// observed: no permission, or it has just ended.
Result<ProcessView> ViewRunningProcess(pid_t pid);

// Reads the log that the loader wrote with LD_DEBUG=files,bindings for one process.
ProcessView ReadLoaderLog(std::istream& log);

}  // namespace ucudnn::command
