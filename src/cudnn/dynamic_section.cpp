#include "cudnn/dynamic_section.h"

#include <fcntl.h>
#include <link.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace ucudnn::cudnn {
namespace {

uint64_t ValueOf(std::span<const Elf64_Dyn> entries, Elf64_Sxword tag) {
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == tag) return entry.d_un.d_val;
  }
  return 0;
}

bool IsLibraryHeader(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
         header.e_type == ET_DYN && header.e_machine == EM_X86_64;
}

std::string PathOfProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

int AddLoadedObject(dl_phdr_info* info, size_t, void* data) try {
  auto& objects = *static_cast<std::vector<LoadedObject>*>(data);
  std::string path = objects.empty() ? PathOfProgram() : std::string(info->dlpi_name);
  // The vDSO of Linux has a name but no file. It is skipped, because the loader does not relocate
  // its dynamic section.
  if (path.find('/') == std::string::npos && !objects.empty()) return 0;
  DynamicSection dynamic;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const Elf64_Phdr& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::span entries(reinterpret_cast<const Elf64_Dyn*>(info->dlpi_addr + segment.p_vaddr),
                            segment.p_memsz / sizeof(Elf64_Dyn));
    uint64_t table = ValueOf(entries, DT_STRTAB);
    if (table == 0) break;
    // glibc replaces the value of DT_STRTAB by an address; other loaders leave the offset.
    if (table < info->dlpi_addr) table += info->dlpi_addr;
    dynamic =
        ReadDynamic(entries, {reinterpret_cast<const char*>(table), ValueOf(entries, DT_STRSZ)});
    break;
  }
  objects.push_back({std::move(path), std::move(dynamic)});
  return 0;
} catch (...) {
  // Memory ran out. The list ends with the objects found so far, because no exception may pass
  // through the loader, which is C code.
  return 1;
}

}  // namespace

bool DynamicSection::Needs(std::string_view library) const {
  return std::find(needed.begin(), needed.end(), library) != needed.end();
}

DynamicSection ReadDynamic(std::span<const Elf64_Dyn> entries, std::string_view strings) {
  DynamicSection section;
  const auto text = [&](uint64_t offset) -> std::string {
    if (offset >= strings.size()) return {};
    const size_t end = strings.find('\0', offset);
    if (end == std::string_view::npos) return {};
    return std::string(strings.substr(offset, end - offset));
  };
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SONAME) section.soname = text(entry.d_un.d_val);
    if (entry.d_tag == DT_RPATH) section.rpath = text(entry.d_un.d_val);
    if (entry.d_tag == DT_RUNPATH) section.runpath = text(entry.d_un.d_val);
    if (entry.d_tag == DT_NEEDED) {
      if (std::string name = text(entry.d_un.d_val); !name.empty()) {
        section.needed.push_back(std::move(name));
      }
    }
  }
  return section;
}

ElfInput::ElfInput(const std::string& path)
    // O_NONBLOCK: opening a FIFO must not block the caller.
    : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0 || fstat(descriptor_, &status_) == 0) return;
  const int error = errno;
  close(std::exchange(descriptor_, -1));
  errno = error;
}

bool ElfInput::ReadSegments(const Elf64_Ehdr& header, std::vector<Elf64_Phdr>& out) const {
  return (header.e_phnum == 0 || header.e_phentsize == sizeof(Elf64_Phdr)) &&
         Read(header.e_phoff, header.e_phnum, out);
}

bool ElfInput::ReadDynamic(std::span<const Elf64_Phdr> segments, DynamicSection& out) const {
  const auto dynamic = std::find_if(segments.begin(), segments.end(),
                                    [](const auto& s) { return s.p_type == PT_DYNAMIC; });
  std::vector<Elf64_Dyn> entries;
  if (dynamic == segments.end() ||
      !Read(dynamic->p_offset, dynamic->p_filesz / sizeof(Elf64_Dyn), entries)) {
    return false;
  }
  // DT_STRTAB holds the address of the string table. The table's offset in the file follows from
  // the segment that is loaded at this address.
  const uint64_t table = ValueOf(entries, DT_STRTAB);
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || table < segment.p_vaddr ||
        table - segment.p_vaddr >= segment.p_filesz) {
      continue;
    }
    const uint64_t within = table - segment.p_vaddr;
    std::vector<char> strings;
    if (segment.p_offset > size() || within > size() ||
        !Read(segment.p_offset + within, ValueOf(entries, DT_STRSZ), strings)) {
      return false;
    }
    out = cudnn::ReadDynamic(entries, {strings.data(), strings.size()});
    return true;
  }
  return false;
}

Result<LibraryFile> ReadLibraryFile(const std::string& path) {
  const ElfInput file(path);
  if (!file.IsOpen()) return Status::Error(std::strerror(errno));
  if (S_ISDIR(file.status().st_mode)) return Status::Error("is a folder, not a library");
  if (!S_ISREG(file.status().st_mode)) return Status::Error("is not a regular file");
  std::vector<Elf64_Ehdr> header;
  if (!file.Read(0, 1, header) || !IsLibraryHeader(header[0])) {
    return Status::Error("is not a shared library for x86-64");
  }
  LibraryFile library;
  library.device = file.status().st_dev;
  library.inode = file.status().st_ino;
  std::vector<Elf64_Phdr> segments;
  if (!file.ReadSegments(header[0], segments) || !file.ReadDynamic(segments, library.dynamic)) {
    return Status::Error("is damaged: its dynamic section cannot be read");
  }
  return library;
}

std::vector<LoadedObject> LoadedObjects() {
  std::vector<LoadedObject> objects;
  dl_iterate_phdr(AddLoadedObject, &objects);
  return objects;
}

}  // namespace ucudnn::cudnn
