// The dynamic section of an ELF library, read from an untrusted file or from an object that the
// loader has mapped. Pure except for reading; thread-safe.
#pragma once

#include <elf.h>
#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn::cudnn {

struct DynamicSection {
  std::string soname;
  std::vector<std::string> needed;
  std::string rpath;  // unexpanded, colon separated
  std::string runpath;

  bool Needs(std::string_view library) const;
};

// Entries whose strings lie outside `strings` are left out.
DynamicSection ReadDynamic(std::span<const Elf64_Dyn> entries, std::string_view strings);

struct LibraryFile {
  DynamicSection dynamic;
  dev_t device = 0;
  ino_t inode = 0;
};

// Reads the file at `path` as a shared library of this machine. If it is none, the error says what
// the file is instead.
Result<LibraryFile> ReadLibraryFile(const std::string& path);

struct LoadedObject {
  std::string path;  // absolute; the main program's own file first
  DynamicSection dynamic;
};

// Returns all objects of this process that come from a file, in the loader's order.
std::vector<LoadedObject> LoadedObjects();

}  // namespace ucudnn::cudnn
