// A library that is opened at run time. No other file of src/ calls dlopen or dlsym. The library is
// never closed, because threads may run its code while the process exits. Copies are cheap;
// thread-safe.
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

  // Returns null if neither the library nor one that it needs has the symbol.
  void* Symbol(const char* name) const;

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

// Returns the path, as the loader was given it, of the file that holds the code or data at
// `address`; empty if no file does.
std::string FileOf(const void* address);

// Returns the directories, expanded and in order, in which the loader looks for a library that the
// main program needs: the program's run paths, LD_LIBRARY_PATH as it was at start, and the loader's
// default directories.
std::vector<std::string> ProgramSearchDirectories();

}  // namespace ucudnn
