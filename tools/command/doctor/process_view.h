// What can be seen of a process from outside: its program, what the loader mapped, its environment.
// Either of a running one, from /proc, or of one that ran, from the loader's own log (LD_DEBUG).
// Thread-compatible. Whatever the process put there is taken as text, nothing is trusted.
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
  std::string by;  // the object whose code asked for it
};

// Functions of cuDNN that the loader bound.
struct CudnnBinding {
  std::string user;     // the object that calls them; `library`: they were looked up in it (dlsym)
  std::string library;  // the file that they are in
};

struct ProcessView {
  pid_t pid = 0;
  std::string program;  // its file
  std::vector<std::string>
      objects;             // files the loader mapped, each once, as the process names them
  VariableMap variables;   // its environment when it started
  bool secure = false;     // it started with more rights than its user
  bool elsewhere = false;  // in another mount namespace: a container
  std::string root;        // put before its paths to read them here; empty: as they are
  std::string folder;      // its working folder
  bool has_log = false;    // the loader's log is known: then all that follows
  std::vector<OpenedLibrary> opened;   // libraries opened while it ran that were not there already
  std::vector<std::string> reopened;   // paths that dlopen returned, new or not
  std::vector<std::string> repeated;   // those it returned more than once
  std::vector<CudnnBinding> bindings;  // each pair once
};

// Whether this is a process, and one that runs a program.
Status CheckProcess(pid_t pid);

// REQUIRES: CheckProcess(pid) was ok. The error says what keeps it from being seen: no right to, or
// that it has just ended.
Result<ProcessView> ViewRunningProcess(pid_t pid);

// From the log that the loader wrote under LD_DEBUG=files,bindings for one process.
ProcessView ReadLoaderLog(std::istream& log);

}  // namespace ucudnn::command
