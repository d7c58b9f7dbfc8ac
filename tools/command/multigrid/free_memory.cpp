#include "command/multigrid/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "base/byte_size.h"

namespace ucudnn::command {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::optional<int64_t> NumberIn(const char* path) {
  int64_t number = 0;
  std::ifstream file(path);
  return file >> number ? std::optional(number) : std::nullopt;  // the text "max" gives none
}

int64_t FreeOnThisMachine() {
  std::ifstream file("/proc/meminfo");
  int64_t kib = 0;
  for (std::string word; file >> word;) {
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return kNoLimit;
}

int64_t FreeInThisGroup() {
  const auto limit = NumberIn("/sys/fs/cgroup/memory.max");
  const auto used = NumberIn("/sys/fs/cgroup/memory.current");
  return limit && used ? std::max<int64_t>(*limit - *used, 0) : kNoLimit;
}

}  // namespace

int64_t FreeMemoryBytes() { return std::min(FreeOnThisMachine(), FreeInThisGroup()); }

Status CheckFreeMemory(int64_t bytes, const std::string& what, const std::string& how,
                       const std::string& expected) {
  const int64_t free = FreeMemoryBytes();
  if (bytes <= free) return Status::Ok();
  return Status::Error(what + " take " + FormatByteSize(static_cast<size_t>(bytes)) + how +
                       ", and " + FormatByteSize(static_cast<size_t>(free)) +
                       " of memory are free; expected " + expected);
}

}  // namespace ucudnn::command
