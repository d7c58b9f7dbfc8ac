// A library that is opened at run time. No other file of src/ calls dlopen or dlsym. The library is
// never closed, because threads may run its code while the process exits. Copies of the object are
// cheap; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn {

class SharedLibrary {
 public:
  // Opens the library of this path or soname; its symbols stay local to it. The error is the
  // loader's own.
  static Result<SharedLibrary> Open(const std::string& name);
  // Finds a library that this process has already loaded under this path or soname. Loads nothing.
  static Result<SharedLibrary> Loaded(const std::string& name);

  // Returns null if neither the library nor any library that it needs has the symbol.
  void* Symbol(const char* name) const;

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

// Returns the path of the file that holds the code or data at `address`, as the loader was given
// the path. Returns an empty text if no file holds it.
std::string FileOf(const void* address);

// Returns the directories in which the loader looks for a library that the main program needs,
// expanded and in the loader's order: the program's run paths, LD_LIBRARY_PATH as it was at start,
// and the loader's default directories.
std::vector<std::string> ProgramSearchDirectories();

}  // namespace ucudnn
