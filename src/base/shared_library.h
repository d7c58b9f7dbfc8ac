// A library that is opened at run time, by the only dlopen and dlsym of src/. It is never closed,
// because threads may run its code while the process exits. A cheap value; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn {

class SharedLibrary {
 public:
  // `name` is a path or a soname. Symbols stay local to the library. The error is the loader's own.
  static Result<SharedLibrary> Open(const std::string& name);
  // Finds a library that this process has loaded already, under that path or soname; loads nothing.
  static Result<SharedLibrary> Loaded(const std::string& name);

  // Returns null if neither the library nor one that it needs has the symbol.
  void* Symbol(const char* name) const;

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

// Returns the file that holds the code or data at `address`, as the loader was given it; empty:
// none.
std::string FileOf(const void* address);

// Returns the directories in which the loader looks for a library that the main program needs, in
// its order and expanded: the program's run paths, LD_LIBRARY_PATH as it was at start, the loader's
// default directories.
std::vector<std::string> ProgramSearchDirectories();

}  // namespace ucudnn
