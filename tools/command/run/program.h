// The program the user wants started: finding it, and saying beforehand why it cannot be served,
// rather than starting it and letting it fail in its own words. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::command {

// What comes before and behind the last slash of a path.
std::string FolderOf(const std::string& path);
std::string NameOf(const std::string& path);

// A program that was looked for.
struct FoundProgram {
  std::string path;  // of the file; empty: there is none
  Status can_run;    // why this user cannot run it, or that there is none
};

// The file `name` means: itself when it has a slash, else the first match in `search_path` (as
// PATH).
FoundProgram FindProgram(const std::string& name, const std::string& search_path);

// Whether the file is a program for this machine, or no ELF file at all, as scripts are not.
Status CheckImage(const std::string& program);

// Whether the loader of `program` honours LD_PRELOAD. Scripts are not looked into.
Status CheckPreload(const std::string& program);

// Why the system did not start `program`, whose execve() failed with `error`.
std::string WhyNotStarted(const std::string& program, int error);

// Files of a program that the CPU stand-ins start all the same, because nobody can say beforehand
// whether it uses them: what they ask of the stand-ins is an error of that call.
struct HostGaps {
  std::vector<std::string> with_kernels;  // launched by the shared runtime
  std::vector<std::string>
      with_runtime;  // libraries with a CUDA runtime linked in, as NVIDIA's are
};

// Whether the CPU stand-ins in `host_folder` can start `program` with the libraries it needs,
// looked for where the loader will: run paths, `library_path` (as LD_LIBRARY_PATH), its cache,
// default folders.
Result<HostGaps> CheckHost(const std::string& program, const std::string& host_folder,
                           const std::string& library_path);

// A library a program needs, with those its libraries need.
struct NeededLibrary {
  std::string name;
  std::string path;       // empty: not found
  std::string needed_by;  // path of the file that needs it
};

// In the order the loader takes them, each name once. What lies in `preloaded_folder` (empty: none)
// takes the place of any library of its name, wherever that is.
std::vector<NeededLibrary> NeededLibraries(const std::string& program,
                                           const std::string& preloaded_folder,
                                           const std::string& library_path);

}  // namespace ucudnn::command
