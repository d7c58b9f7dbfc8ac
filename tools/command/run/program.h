// The program that the user wants to start: finds it, and says beforehand why it cannot be served,
// instead of letting it fail with its own message. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::command {

// Returns the parts of a path before and behind the last slash.
std::string FolderOf(const std::string& path);
std::string NameOf(const std::string& path);

// The result of looking for a program.
struct FoundProgram {
  std::string path;  // path of the file; empty: there is none
  Status can_run;    // why this user cannot run it, or that it does not exist
};

// Returns the file that `name` means: itself if it contains a slash, else the first match in
// `search_path` (in the form of PATH).
FoundProgram FindProgram(const std::string& name, const std::string& search_path);

// Returns Ok if the file is a program for this machine, or no ELF file, such as a script.
Status CheckImage(const std::string& program);

// Returns Ok if the loader of `program` honours LD_PRELOAD. Scripts are not looked into.
Status CheckPreload(const std::string& program);

// Returns why the system did not start `program`, for which execve() failed with `error`.
std::string WhyNotStarted(const std::string& program, int error);

// Files of a program that the CPU stand-ins may not serve. The program is started all the same,
// because it is unknown whether it uses them: such a use is then an error of that call.
struct HostGaps {
  std::vector<std::string> with_kernels;  // files with kernels that the shared runtime launches
  std::vector<std::string> with_runtime;  // libraries with a static CUDA runtime, such as NVIDIA's
};

// Fails if the CPU stand-ins in `host_folder` cannot start `program` with the libraries that it
// needs. These are sought in the loader's places: run paths, `library_path` (in the form of
// LD_LIBRARY_PATH), its cache, default folders.
Result<HostGaps> CheckHost(const std::string& program, const std::string& host_folder,
                           const std::string& library_path);

// A library that a program needs, directly or by way of other libraries.
struct NeededLibrary {
  std::string name;
  std::string path;       // empty: not found
  std::string needed_by;  // path of the file that needs it
};

// Libraries in the order in which the loader takes them, each name once. A library in
// `preloaded_folder` (empty: none) replaces any library of its name, wherever that is.
std::vector<NeededLibrary> NeededLibraries(const std::string& program,
                                           const std::string& preloaded_folder,
                                           const std::string& library_path);

}  // namespace ucudnn::command
