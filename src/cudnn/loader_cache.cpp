#include "cudnn/loader_cache.h"

#include <cstdint>
#include <cstring>

namespace ucudnn::cudnn {
namespace {

constexpr std::string_view kOldMagic = "ld.so-1.7.0";
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr size_t kOldHeaderBytes = 16;  // magic, padding, count of entries
constexpr size_t kOldEntryBytes = 12;
constexpr size_t kHeaderBytes = 48;
constexpr size_t kEntryBytes = 24;
constexpr uint32_t kX86_64Elf = 0x0303;  // FLAG_X8664_LIB64 | FLAG_ELF_LIBC6

uint32_t Word(std::string_view bytes, size_t offset) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

std::string_view TextAt(std::string_view bytes, uint32_t offset) {
  if (offset >= bytes.size()) return {};
  const size_t end = bytes.find('\0', offset);
  return end == std::string_view::npos ? std::string_view() : bytes.substr(offset, end - offset);
}

// Returns the part of the file that is in the new format. The string offsets of this format count
// from the beginning of this part.
std::string_view NewPart(std::string_view bytes) {
  if (bytes.starts_with(kMagic)) return bytes;
  if (!bytes.starts_with(kOldMagic) || bytes.size() < kOldHeaderBytes) return {};
  const size_t entries = Word(bytes, kOldHeaderBytes - sizeof(uint32_t));
  if (entries > (bytes.size() - kOldHeaderBytes) / kOldEntryBytes) return {};
  // The new header is aligned to 8 bytes, because it has 64-bit fields.
  const size_t start = (kOldHeaderBytes + entries * kOldEntryBytes + 7) / 8 * 8;
  if (start >= bytes.size() || !bytes.substr(start).starts_with(kMagic)) return {};
  return bytes.substr(start);
}

}  // namespace

std::vector<std::string> FindInLoaderCache(std::string_view bytes, std::string_view soname) {
  std::vector<std::string> paths;
  const std::string_view cache = NewPart(bytes);
  if (cache.size() < kHeaderBytes) return paths;
  const size_t entries = Word(cache, kMagic.size());
  if (entries > (cache.size() - kHeaderBytes) / kEntryBytes) return paths;
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = kHeaderBytes + i * kEntryBytes;
    if (Word(cache, entry) != kX86_64Elf) continue;
    if (TextAt(cache, Word(cache, entry + 4)) != soname) continue;
    const std::string_view path = TextAt(cache, Word(cache, entry + 8));
    if (path.starts_with('/')) paths.emplace_back(path);
  }
  return paths;
}

}  // namespace ucudnn::cudnn
