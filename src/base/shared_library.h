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
  // The same for what this process has loaded already, under that path or soname: loads nothing.
  static Result<SharedLibrary> Loaded(const std::string& name);

  // Null when neither the library nor those it needs have the symbol.
  void* Symbol(const char* name) const;

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

// The file that holds the code or data at `address`, as the loader was given it; empty: none.
std::string FileOf(const void* address);

// Where the loader looks for a library the main program needs, in its own order and expanded: the
// program's run paths, LD_LIBRARY_PATH as it was at start, the loader's default directories.
std::vector<std::string> ProgramSearchDirectories();

}  // namespace ucudnn
