// Finds the program that the user wants to start, and says before the start why it cannot run, or
// cannot run with the drop-in or the CPU stand-ins. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::command {

// FolderOf returns the part of a path before the last slash, and NameOf the part after it.
std::string FolderOf(const std::string& path);
std::string NameOf(const std::string& path);

// The result of a search for a program.
struct FoundProgram {
  std::string path;  // path of the file; empty if there is none
  Status can_run;    // Ok, or the reason: the file does not exist or this user cannot run it
};

// Returns the file of the program `name`: `name` itself if it contains a slash, else the first
// executable file of that name in the folders of `search_path`, which has the form of PATH.
FoundProgram FindProgram(const std::string& name, const std::string& search_path);

// Returns Ok if the file is a program for this machine, or no ELF file, such as a script.
Status CheckImage(const std::string& program);

// Fails if LD_PRELOAD has no effect on `program`: it is static, or has more rights than its user.
// Does not look into scripts.
Status CheckPreload(const std::string& program);

// Returns the reason why the system did not start `program`. `error` is the errno of the failed
// execve().
std::string WhyNotStarted(const std::string& program, int error);

// Files of a program that do not work with the CPU stand-ins. The program is started nevertheless,
// because it might not use these files. If it uses one, that call fails.
struct HostGaps {
  std::vector<std::string> with_kernels;  // files with kernels that the shared runtime launches
  std::vector<std::string> with_runtime;  // libraries with a static CUDA runtime, such as NVIDIA's
};

// Fails if `program`, with the libraries that it needs, cannot run on the CPU stand-ins in
// `host_folder`. Looks for the libraries where the loader does: in run paths, `library_path` (which
// has the form of LD_LIBRARY_PATH), the loader's cache and default folders.
Result<HostGaps> CheckHost(const std::string& program, const std::string& host_folder,
                           const std::string& library_path);

// A library that a program needs, directly or through other libraries.
struct NeededLibrary {
  std::string name;
  std::string path;       // empty if it was not found
  std::string needed_by;  // path of the file that needs it
};

// Returns the libraries that `program` needs in the order in which the loader loads them, each name
// once. A library in `preloaded_folder` (empty: none) replaces any library of the same name.
std::vector<NeededLibrary> NeededLibraries(const std::string& program,
                                           const std::string& preloaded_folder,
                                           const std::string& library_path);

}  // namespace ucudnn::command
