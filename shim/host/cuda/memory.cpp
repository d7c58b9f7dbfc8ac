#include "shim/host/cuda/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iterator>

namespace hostgpu {
namespace {

constexpr size_t kGranule = 512;

}  // namespace

DeviceMemory::DeviceMemory(size_t bytes) : total_(bytes / kGranule * kGranule) {
  gaps_.emplace(0, total_);
}

bool DeviceMemory::Map() {
  if (alias_) return true;
  const int file = memfd_create("hostgpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return false;
  void* view = MAP_FAILED;
  void* alias = MAP_FAILED;
  // The file's size is sealed, so that other processes that map it can rely on the size.
  if (ftruncate(file, static_cast<off_t>(total_)) == 0 &&
      fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    view = mmap(nullptr, total_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
    alias = mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  if (view == MAP_FAILED || alias == MAP_FAILED) {
    close(file);
    if (view != MAP_FAILED) munmap(view, total_);
    if (alias != MAP_FAILED) munmap(alias, total_);
    return false;
  }
  // A forked child must not be able to write to its parent's device memory.
  madvise(view, total_, MADV_DONTFORK);
  madvise(alias, total_, MADV_DONTFORK);
  madvise(alias, total_, MADV_DONTDUMP);
  base_ = reinterpret_cast<uintptr_t>(view);
  alias_ = static_cast<char*>(alias);
  file_ = file;
  return true;
}

int DeviceMemory::NewFile() {
  std::lock_guard lock(mutex_);
  return Map() ? fcntl(file_, F_DUPFD_CLOEXEC, 0) : -1;
}

std::optional<uintptr_t> DeviceMemory::Allocate(size_t bytes) {
  if (bytes > total_) return std::nullopt;
  const size_t rounded = Rounded(bytes);
  std::lock_guard lock(mutex_);
  if (!Map()) return std::nullopt;
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second < rounded) continue;
    const size_t offset = gap->first;
    const size_t rest = gap->second - rounded;
    live_.emplace(offset, Block{rounded, bytes, ++issued_});
    gaps_.erase(gap);
    if (rest > 0) gaps_.emplace(offset + rounded, rest);
    used_ += rounded;
    return base_ + offset;
  }
  return std::nullopt;
}

bool DeviceMemory::Free(uintptr_t address) {
  std::lock_guard lock(mutex_);
  const auto block = live_.find(address - base_);
  if (!alias_ || block == live_.end()) return false;
  AddGap(block->first, block->second.rounded);
  live_.erase(block);
  return true;
}

void DeviceMemory::AddGap(size_t offset, size_t bytes) {
  used_ -= bytes;
  const auto gap = gaps_.emplace(offset, bytes).first;
  if (const auto next = std::next(gap);
      next != gaps_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap != gaps_.begin()) {
    const auto previous = std::prev(gap);
    if (previous->first + previous->second == gap->first) {
      previous->second += gap->second;
      gaps_.erase(gap);
    }
  }
}

size_t DeviceMemory::Rounded(size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

size_t DeviceMemory::Hold(uintptr_t address) {
  std::lock_guard lock(mutex_);
  const auto block = live_.find(address - base_);
  const size_t rounded = block->second.rounded;
  live_.erase(block);
  return rounded;
}

void DeviceMemory::Use(uintptr_t address, size_t bytes) {
  std::lock_guard lock(mutex_);
  live_.emplace(address - base_, Block{Rounded(bytes), bytes, ++issued_});
}

void DeviceMemory::Release(uintptr_t address, size_t rounded) {
  std::lock_guard lock(mutex_);
  AddGap(address - base_, rounded);
}

void DeviceMemory::FreeAll() {
  std::lock_guard lock(mutex_);
  live_.clear();
  gaps_ = {{0, total_}};
  used_ = 0;
  if (alias_) madvise(alias_, total_, MADV_REMOVE);
}

bool DeviceMemory::Contains(uintptr_t address) const {
  std::lock_guard lock(mutex_);
  return alias_ && address >= base_ && address - base_ < total_;
}

std::optional<Allocation> DeviceMemory::Find(uintptr_t address) const {
  std::lock_guard lock(mutex_);
  if (!alias_ || address < base_) return std::nullopt;
  auto block = live_.upper_bound(address - base_);
  if (block == live_.begin()) return std::nullopt;
  --block;
  const Allocation allocation{base_ + block->first, block->second.bytes, block->second.number};
  if (address - allocation.start >= allocation.bytes) return std::nullopt;
  return allocation;
}

size_t DeviceMemory::free_bytes() const {
  std::lock_guard lock(mutex_);
  return total_ - used_;
}

}  // namespace hostgpu
