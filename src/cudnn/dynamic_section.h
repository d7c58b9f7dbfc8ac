// The dynamic section of an ELF library, read from an untrusted file or from an object that the
// loader has mapped. Thread-safe.
#pragma once

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
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

// Reads a dynamic section. Entries whose strings lie outside `strings` are left out.
DynamicSection ReadDynamic(std::span<const Elf64_Dyn> entries, std::string_view strings);

// Reads a file that may have any content; never reads beyond its end.
class ElfInput {
 public:
  // On failure IsOpen() is false and errno says why.
  explicit ElfInput(const std::string& path);
  ElfInput(const ElfInput&) = delete;
  ElfInput& operator=(const ElfInput&) = delete;
  ~ElfInput() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  bool IsOpen() const { return descriptor_ >= 0; }
  const struct stat& status() const { return status_; }
  uint64_t size() const { return S_ISREG(status_.st_mode) ? uint64_t(status_.st_size) : 0; }

  // Reads `count` elements at byte `offset`. Returns false unless all elements could be read.
  template <typename T>
  bool Read(uint64_t offset, uint64_t count, std::vector<T>& out) const {
    if (count > kMostTableBytes / sizeof(T) || offset > size() ||
        count * sizeof(T) > size() - offset) {
      return false;
    }
    out.resize(count);
    const ssize_t got =
        pread(descriptor_, out.data(), count * sizeof(T), static_cast<off_t>(offset));
    return got == static_cast<ssize_t>(count * sizeof(T));
  }

  // Reads the program headers of a file with this header.
  bool ReadSegments(const Elf64_Ehdr& header, std::vector<Elf64_Phdr>& out) const;
  // Reads the dynamic section that one of `segments` holds. Returns false if there is none that can
  // be read.
  bool ReadDynamic(std::span<const Elf64_Phdr> segments, DynamicSection& out) const;

 private:
  // No table of a real file is larger. A damaged header must not make this process allocate
  // gigabytes.
  static constexpr uint64_t kMostTableBytes = 64u << 20;

  int descriptor_;
  struct stat status_ = {};
};

struct LibraryFile {
  DynamicSection dynamic;
  dev_t device = 0;
  ino_t inode = 0;
};

// Reads the file at `path` as a shared library of this machine. If it is not such a library, the
// error says what it is instead.
Result<LibraryFile> ReadLibraryFile(const std::string& path);

struct LoadedObject {
  std::string path;  // absolute
  DynamicSection dynamic;
};

// Returns all objects of this process that were loaded from a file, in the loader's order, so the
// main program is the first.
std::vector<LoadedObject> LoadedObjects();

}  // namespace ucudnn::cudnn
