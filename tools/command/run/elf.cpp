#include "command/run/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

namespace ucudnn::command {
namespace {

// Tables of real files are far smaller: a damaged header must not make this process allocate
// gigabytes.
constexpr uint64_t kMostTableBytes = 64u << 20;
constexpr uint64_t kChunkBytes = 1u << 20;

// A text in the read-only data of every CUDA runtime since 5.0, the name of its shared memory. It
// survives strip.
constexpr std::string_view kCudartMark = "/cudart.shm.%";
constexpr std::string_view kCudnnMark = "libcudnn.so";
constexpr std::string_view kCudnnPathMark = "/libcudnn.so";
constexpr std::string_view kCudnnFunction = "cudnnCreate";
// nvcc makes a file call this at its start for each kernel that it can launch. GPU code in sections
// is no evidence: every file that nvcc links has some, at least of an empty module, and it may be
// compressed.
constexpr std::string_view kRegisterKernel = "__cudaRegisterFunction";

class File {
 public:
  explicit File(const std::string& path)
      // A FIFO must not block us.
      : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status;
    if (descriptor_ >= 0 && fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
      size_ = static_cast<uint64_t>(status.st_size);
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  bool IsOpen() const { return descriptor_ >= 0; }
  uint64_t size() const { return size_; }

  // Returns false unless all `count` elements at `offset` could be read.
  template <typename T>
  bool Read(uint64_t offset, uint64_t count, std::vector<T>& out) const {
    if (count > kMostTableBytes / sizeof(T) || offset > size_ ||
        count * sizeof(T) > size_ - offset) {
      return false;
    }
    out.resize(count);
    const ssize_t got =
        pread(descriptor_, out.data(), count * sizeof(T), static_cast<off_t>(offset));
    return got == static_cast<ssize_t>(count * sizeof(T));
  }

 private:
  int descriptor_;
  uint64_t size_ = 0;
};

uint64_t EntryValue(const std::vector<Elf64_Dyn>& entries, Elf64_Sxword tag) {
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == tag) return entry.d_un.d_val;
  }
  return 0;
}

// Reads the string table of the dynamic section. Only its address is known: the segment that is
// loaded there tells its place in the file.
bool ReadStrings(const File& file, const std::vector<Elf64_Phdr>& segments, uint64_t address,
                 uint64_t bytes, std::vector<char>& out) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
        address - segment.p_vaddr >= segment.p_filesz) {
      continue;
    }
    const uint64_t within = address - segment.p_vaddr;
    return segment.p_offset <= file.size() && within <= file.size() &&
           file.Read(segment.p_offset + within, bytes, out);
  }
  return false;
}

bool ReadSegments(const File& file, const Elf64_Ehdr& header, ElfFile& out) {
  std::vector<Elf64_Phdr> segments;
  if (header.e_phnum > 0 && header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  if (!file.Read(header.e_phoff, header.e_phnum, segments)) return false;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_INTERP) out.has_interpreter = true;
    if (segment.p_type != PT_DYNAMIC) continue;
    std::vector<Elf64_Dyn> entries;
    std::vector<char> strings;
    if (!file.Read(segment.p_offset, segment.p_filesz / sizeof(Elf64_Dyn), entries) ||
        !ReadStrings(file, segments, EntryValue(entries, DT_STRTAB), EntryValue(entries, DT_STRSZ),
                     strings)) {
      return false;
    }
    out.dynamic = cudnn::ReadDynamic(entries, {strings.data(), strings.size()});
  }
  return true;
}

// Looks for the marks in read-only data.
void ReadTexts(const File& file, const Elf64_Shdr& section, ElfFile& out) {
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

// Calls visit(name, defined) for each symbol of a table: the file defines it, or needs it from
// another. `names` is the table's string table.
template <class Visit>
void ForEachSymbol(const File& file, const Elf64_Shdr& table, const Elf64_Shdr& names,
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

// Section headers are not needed to run: a file without any is valid, and gives no facts here.
void ReadSections(const File& file, const Elf64_Ehdr& header, ElfFile& out) {
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
  const File file(path);
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
  const File file(path);
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
