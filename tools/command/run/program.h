// The program that the user wants to start: finds it, and says before the start why it cannot be
// served. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::command {

// Return the parts of a path before and behind the last slash.
std::string FolderOf(const std::string& path);
std::string NameOf(const std::string& path);

// The result of a search for a program.
struct FoundProgram {
  std::string path;  // path of the file; empty if there is none
  Status can_run;    // why this user cannot run it, or that it does not exist
};

// Returns the file that `name` means: `name` itself if it contains a slash, else the first match in
// `search_path`, which has the form of PATH.
FoundProgram FindProgram(const std::string& name, const std::string& search_path);

// Returns Ok if the file is a program for this machine, or no ELF file, such as a script.
Status CheckImage(const std::string& program);

// Returns Ok if the loader of `program` honours LD_PRELOAD. Does not look into scripts.
Status CheckPreload(const std::string& program);

// Returns the reason why the system did not start `program`. `error` is the errno of the failed
// execve().
std::string WhyNotStarted(const std::string& program, int error);

// Files of a program that the CPU stand-ins possibly cannot serve. The program is started
// nevertheless, because it might not use these files; if it does, the call itself fails.
struct HostGaps {
  std::vector<std::string> with_kernels;  // files with kernels that the shared runtime launches
  std::vector<std::string> with_runtime;  // libraries with a static CUDA runtime, such as NVIDIA's
};

// Fails if the CPU stand-ins in `host_folder` cannot start `program` with the libraries that it
// needs. Looks for the libraries in the same places as the loader: run paths, `library_path` (which
// has the form of LD_LIBRARY_PATH), the loader's cache, default folders.
Result<HostGaps> CheckHost(const std::string& program, const std::string& host_folder,
                           const std::string& library_path);

// A library that a program needs, directly or through other libraries.
struct NeededLibrary {
  std::string name;
  std::string path;       // empty if it was not found
  std::string needed_by;  // path of the file that needs it
};

// Returns the libraries in the order in which the loader takes them, each name once. A library in
// `preloaded_folder` (empty: none) replaces any library of the same name.
std::vector<NeededLibrary> NeededLibraries(const std::string& program,
                                           const std::string& preloaded_folder,
                                           const std::string& library_path);

}  // namespace ucudnn::command
