#include "command/run/elf.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

namespace ucudnn::command {
namespace {

using cudnn::ElfInput;

constexpr uint64_t kChunkBytes = 1u << 20;

// A text in the read-only data of every CUDA runtime since 5.0 (the name of its shared memory),
// which strip does not remove.
constexpr std::string_view kCudartMark = "/cudart.shm.%";
constexpr std::string_view kCudnnMark = "libcudnn.so";
constexpr std::string_view kCudnnPathMark = "/libcudnn.so";
constexpr std::string_view kCudnnFunction = "cudnnCreate";
// Code that nvcc generates calls this function once for each kernel that the file can launch.
// Sections with GPU code do not show that there are kernels: every file that nvcc links has such
// sections, if only for an empty module.
constexpr std::string_view kRegisterKernel = "__cudaRegisterFunction";

bool ReadSegments(const ElfInput& file, const Elf64_Ehdr& header, ElfFile& out) {
  std::vector<Elf64_Phdr> segments;
  if (!file.ReadSegments(header, segments)) return false;
  const auto has = [&](uint32_t type) {
    return std::any_of(segments.begin(), segments.end(),
                       [&](const Elf64_Phdr& segment) { return segment.p_type == type; });
  };
  out.has_interpreter = has(PT_INTERP);
  return !has(PT_DYNAMIC) || file.ReadDynamic(segments, out.dynamic);
}

// Looks for the marks, the texts above, in a section of read-only data.
void ReadTexts(const ElfInput& file, const Elf64_Shdr& section, ElfFile& out) {
  constexpr uint64_t kOverlap = std::max(kCudartMark.size(), kCudnnPathMark.size()) - 1;
  std::vector<char> chunk;
  for (uint64_t at = 0; at < section.sh_size;) {
    const uint64_t bytes = std::min(kChunkBytes, section.sh_size - at);
    if (!file.Read(section.sh_offset + at, bytes, chunk)) return;
    const std::string_view text(chunk.data(), chunk.size());
    out.has_static_cudart |= text.find(kCudartMark) != std::string_view::npos;
    out.names_cudnn |= text.find(kCudnnMark) != std::string_view::npos;
    out.names_cudnn_path |= text.find(kCudnnPathMark) != std::string_view::npos;
    if (bytes < kChunkBytes) break;
    at += bytes - kOverlap;
  }
}

// Calls visit(name, defined) for each symbol of `table`, whose string table is `names`. `defined`
// is false if the file needs the symbol from another file.
template <class Visit>
void ForEachSymbol(const ElfInput& file, const Elf64_Shdr& table, const Elf64_Shdr& names,
                   const Visit& visit) {
  std::vector<Elf64_Sym> symbols;
  std::vector<char> texts;
  if (table.sh_entsize != sizeof(Elf64_Sym) ||
      !file.Read(table.sh_offset, table.sh_size / sizeof(Elf64_Sym), symbols) ||
      !file.Read(names.sh_offset, names.sh_size, texts)) {
    return;
  }
  const std::string_view all(texts.data(), texts.size());
  for (const Elf64_Sym& symbol : symbols) {
    if (symbol.st_name >= all.size()) continue;
    const std::string_view rest = all.substr(symbol.st_name);
    visit(rest.substr(0, rest.find('\0')), symbol.st_shndx != SHN_UNDEF);
  }
}

// Sets the members of `out` that come from sections. Leaves them unset if the file has no section
// headers; such a file is valid, because the loader does not need them.
void ReadSections(const ElfInput& file, const Elf64_Ehdr& header, ElfFile& out) {
  std::vector<Elf64_Shdr> sections;
  std::vector<char> names;
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum ||
      !file.Read(header.e_shoff, header.e_shnum, sections) ||
      !file.Read(sections[header.e_shstrndx].sh_offset, sections[header.e_shstrndx].sh_size,
                 names)) {
    return;
  }
  const std::string_view all(names.data(), names.size());
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_name >= all.size()) continue;
    const std::string_view name =
        all.substr(section.sh_name, all.find('\0', section.sh_name) - section.sh_name);
    if (name == ".rodata" && section.sh_type == SHT_PROGBITS && section.sh_offset <= file.size()) {
      ReadTexts(file, section, out);
    }
    const bool is_table = section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM;
    if (is_table && section.sh_link < sections.size()) {
      ForEachSymbol(file, section, sections[section.sh_link],
                    [&](std::string_view name, bool defined) {
                      out.defines_cudnn |= defined && name == kCudnnFunction;
                      out.registers_kernels |= !defined && name == kRegisterKernel;
                    });
    }
  }
}

}  // namespace

Result<ElfFile> ReadElf(const std::string& path) {
  const ElfInput file(path);
  if (!file.IsOpen()) return Status::Error(std::strerror(errno));
  ElfFile out;
  std::vector<unsigned char> ident;
  if (!file.Read(0, SELFMAG, ident) || std::memcmp(ident.data(), ELFMAG, SELFMAG) != 0) {
    return out;
  }
  out.is_elf = true;
  if (!file.Read(0, EI_NIDENT, ident)) return Status::Error("is a damaged program");
  std::vector<Elf64_Ehdr> header;
  if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB) return out;
  if (!file.Read(0, 1, header)) return Status::Error("is a damaged program");
  if (header[0].e_machine != EM_X86_64) return out;
  out.is_x86_64 = true;
  if (!ReadSegments(file, header[0], out)) return Status::Error("is a damaged program");
  ReadSections(file, header[0], out);
  return out;
}

std::vector<std::string> ExportedFunctions(const std::string& path, std::string_view prefix) {
  std::vector<std::string> found;
  const ElfInput file(path);
  std::vector<Elf64_Ehdr> header;
  std::vector<Elf64_Shdr> sections;
  if (!file.IsOpen() || !file.Read(0, 1, header) ||
      std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      header[0].e_shentsize != sizeof(Elf64_Shdr) ||
      !file.Read(header[0].e_shoff, header[0].e_shnum, sections)) {
    return found;
  }
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    ForEachSymbol(file, section, sections[section.sh_link],
                  [&](std::string_view name, bool defined) {
                    if (defined && name.starts_with(prefix)) found.emplace_back(name);
                  });
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace ucudnn::command
