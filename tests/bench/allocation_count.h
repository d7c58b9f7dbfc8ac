// Heap allocations of the whole process: allocation_count.cpp replaces malloc and its kin, for
// libraries loaded later too. Not for sanitizer builds, which have an allocator of their own.
#pragma once

#include <cstdint>

namespace ucudnn::bench {

// Allocations by any thread so far.
long Allocations();

// Bytes that are allocated now, and the most that were since ResetMostBytes: as the allocator
// rounds them, without its own headers.
long LiveBytes();
long MostBytes();
void ResetMostBytes();

// Counts apart those whose caller's code lies from `begin` to `end`: a library's own.
void WatchAllocations(uintptr_t begin, uintptr_t end);
long WatchedAllocations();
// Of them those by the calling thread.
long WatchedAllocationsHere();

}  // namespace ucudnn::bench
