#include "tests/bench/allocation_count.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

// These functions are glibc's own allocator.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
}

namespace ucudnn::bench {
namespace {

std::atomic<long> allocations = 0, watched = 0;
thread_local long watched_here = 0;
std::atomic<uintptr_t> watched_begin = 0, watched_end = 0;

std::atomic<long> live_bytes = 0, most_bytes = 0;

// Counts `memory`, which code at the address `caller` has just allocated. Returns `memory`.
void* Count(const void* caller, void* memory) {
  const auto bytes = static_cast<long>(malloc_usable_size(memory));
  const long live = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  long most = most_bytes.load(std::memory_order_relaxed);
  while (live > most && !most_bytes.compare_exchange_weak(most, live, std::memory_order_relaxed)) {
  }
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto address = reinterpret_cast<uintptr_t>(caller);
  if (address < watched_begin.load(std::memory_order_relaxed)) return memory;
  if (address >= watched_end.load(std::memory_order_relaxed)) return memory;
  watched.fetch_add(1, std::memory_order_relaxed);
  ++watched_here;
  return memory;
}
// Subtracts `memory`, which is about to be freed.
void Discount(void* memory) {
  const auto bytes = static_cast<long>(malloc_usable_size(memory));
  live_bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace

long LiveBytes() { return live_bytes.load(); }
long MostBytes() { return most_bytes.load(); }
void ResetMostBytes() { most_bytes = live_bytes.load(); }

long Allocations() { return allocations.load(); }

void WatchAllocations(uintptr_t begin, uintptr_t end) {
  watched_begin = begin;
  watched_end = end;
}

long WatchedAllocations() { return watched.load(); }

long WatchedAllocationsHere() { return watched_here; }

}  // namespace ucudnn::bench

#pragma GCC visibility push(default)
extern "C" {

void* malloc(size_t bytes) {
  return ucudnn::bench::Count(__builtin_return_address(0), __libc_malloc(bytes));
}
void* calloc(size_t count, size_t bytes) {
  return ucudnn::bench::Count(__builtin_return_address(0), __libc_calloc(count, bytes));
}
void* realloc(void* old, size_t bytes) {
  ucudnn::bench::Discount(old);
  return ucudnn::bench::Count(__builtin_return_address(0), __libc_realloc(old, bytes));
}
void* memalign(size_t alignment, size_t bytes) {
  return ucudnn::bench::Count(__builtin_return_address(0), __libc_memalign(alignment, bytes));
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return ucudnn::bench::Count(__builtin_return_address(0), __libc_memalign(alignment, bytes));
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = ucudnn::bench::Count(__builtin_return_address(0), __libc_memalign(alignment, bytes));
  return *memory != nullptr ? 0 : ENOMEM;
}
void free(void* memory) {
  ucudnn::bench::Discount(memory);
  __libc_free(memory);
}

}  // extern "C"
#pragma GCC visibility pop
