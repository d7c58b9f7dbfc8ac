#include "shim/host/cuda/memory_pool.h"

#include <algorithm>
#include <iterator>

namespace hostgpu {
namespace {

bool AllDone(const std::vector<Ticket>& tickets) {
  return std::all_of(tickets.begin(), tickets.end(), [](const Ticket& t) { return t.Done(); });
}

// `freed` has the tickets of the frees of a memory range. Returns the tickets for which `stream`
// must wait before it uses the range. If `wait` is false and `stream` would have to wait, returns
// none.
std::optional<std::vector<Ticket>> Needed(const std::vector<Ticket>& freed, const Stream& stream,
                                          bool wait) {
  std::vector<Ticket> needed;
  for (const Ticket& ticket : freed) {
    if (stream.Issued(ticket) || ticket.Done()) continue;
    if (!wait) return std::nullopt;
    needed.push_back(ticket);
  }
  return needed;
}

void AddUnused(MemoryPool& pool, uintptr_t address, MemoryPool::Unused added) {
  const auto join = [&](auto range) {
    added.bytes += range->second.bytes;
    std::move(range->second.after.begin(), range->second.after.end(),
              std::back_inserter(added.after));
    return pool.unused.erase(range);
  };
  auto next = pool.unused.upper_bound(address);
  if (next != pool.unused.end() && address + added.bytes == next->first) next = join(next);
  if (next != pool.unused.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second.bytes == address) {
      address = previous->first;
      join(previous);
    }
  }
  pool.unused.emplace(address, std::move(added));
}

}  // namespace

bool StreamOrderedMemory::Live(MemoryPool* pool) const {
  const auto found = pools_.find(pool);
  return found != pools_.end() && !found->second->destroyed;
}

MemoryPool* StreamOrderedMemory::Create(size_t limit) {
  auto pool = std::make_unique<MemoryPool>();
  if (limit > 0) pool->limit = limit;
  std::lock_guard lock(mutex_);
  MemoryPool* const handle = pool.get();
  pools_.emplace(handle, std::move(pool));
  return handle;
}

bool StreamOrderedMemory::Destroy(MemoryPool* pool) {
  std::lock_guard lock(mutex_);
  if (!Live(pool)) return false;
  pool->destroyed = true;
  DropDestroyed();
  return true;
}

bool StreamOrderedMemory::Has(MemoryPool* pool) {
  std::lock_guard lock(mutex_);
  return Live(pool);
}

std::optional<uintptr_t> StreamOrderedMemory::Allocate(MemoryPool* pool, size_t bytes,
                                                       const Stream& stream,
                                                       std::vector<Ticket>* after) {
  const size_t rounded = DeviceMemory::Rounded(bytes);
  if (rounded < bytes) return std::nullopt;
  std::lock_guard lock(mutex_);
  if (!Live(pool)) return std::nullopt;
  uintptr_t address = 0;
  if (Reuse(*pool, rounded, stream, /*wait=*/false, &address, after)) {
    memory_.Use(address, bytes);
  } else if (const auto fresh =
                 pool->limit - std::min<uint64_t>(pool->limit, pool->reserved) < rounded
                     ? std::nullopt
                     : memory_.Allocate(bytes)) {
    address = *fresh;
    after->clear();
    pool->reserved += rounded;
  } else if (Reuse(*pool, rounded, stream, /*wait=*/true, &address, after)) {
    memory_.Use(address, bytes);
  } else {
    return std::nullopt;
  }
  owners_.emplace(address, pool);
  return address;
}

// Allocates from the smallest unused range that is large enough and that `stream` may use. The rest
// of the range stays unused.
bool StreamOrderedMemory::Reuse(MemoryPool& pool, size_t bytes, const Stream& stream, bool wait,
                                uintptr_t* address, std::vector<Ticket>* after) {
  auto best = pool.unused.end();
  for (auto range = pool.unused.begin(); range != pool.unused.end(); ++range) {
    if (range->second.bytes < bytes) continue;
    if (best != pool.unused.end() && range->second.bytes >= best->second.bytes) continue;
    auto needed = Needed(range->second.after, stream, wait);
    if (!needed) continue;
    best = range;
    *after = std::move(*needed);
  }
  if (best == pool.unused.end()) return false;
  *address = best->first;
  MemoryPool::Unused rest = std::move(best->second);
  pool.unused.erase(best);
  rest.bytes -= bytes;
  if (rest.bytes > 0) pool.unused.emplace(*address + bytes, std::move(rest));
  return true;
}

bool StreamOrderedMemory::Allocated(uintptr_t address) {
  std::lock_guard lock(mutex_);
  return owners_.count(address) == 1;
}

bool StreamOrderedMemory::Free(uintptr_t address, const Ticket& after) {
  std::lock_guard lock(mutex_);
  const auto owner = owners_.find(address);
  if (owner == owners_.end()) return false;
  MemoryPool& pool = *owner->second;
  const size_t bytes = memory_.Hold(address);
  owners_.erase(owner);
  AddUnused(pool, address, {bytes, {after}});
  if (pool.destroyed) DropDestroyed();
  return true;
}

void StreamOrderedMemory::Release(MemoryPool& pool) {
  std::erase_if(pool.unused, [&](const auto& range) {
    if (!AllDone(range.second.after)) return false;
    memory_.Release(range.first, range.second.bytes);
    pool.reserved -= range.second.bytes;
    return true;
  });
}

void StreamOrderedMemory::DropDestroyed() {
  for (auto entry = pools_.begin(); entry != pools_.end();) {
    MemoryPool& pool = *entry->second;
    if (pool.destroyed) Release(pool);
    entry = pool.destroyed && pool.reserved == 0 ? pools_.erase(entry) : std::next(entry);
  }
}

void StreamOrderedMemory::ReleaseUnused() {
  std::lock_guard lock(mutex_);
  for (auto& [handle, pool] : pools_) Release(*pool);
  DropDestroyed();
}

bool StreamOrderedMemory::HoldsUnused() {
  std::lock_guard lock(mutex_);
  return std::any_of(pools_.begin(), pools_.end(),
                     [](const auto& entry) { return !entry.second->unused.empty(); });
}

void StreamOrderedMemory::Forget() {
  std::lock_guard lock(mutex_);
  owners_.clear();
  for (auto& [handle, pool] : pools_) {
    pool->unused.clear();
    pool->reserved = 0;
  }
  DropDestroyed();
}

}  // namespace hostgpu
