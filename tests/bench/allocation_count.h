// Counts heap allocations of the whole process, including libraries that are loaded later:
// allocation_count.cpp replaces malloc and C's other allocation functions. Sanitizer builds cannot
// use this file, since sanitizers bring their own allocator.
#pragma once

#include <cstdint>

namespace ucudnn::bench {

// Returns the number of allocations that all threads have made so far.
long Allocations();

// LiveBytes returns the number of bytes that are allocated now. MostBytes returns the largest value
// of LiveBytes since ResetMostBytes. An allocation counts with its usable size
// (malloc_usable_size), without the allocator's header.
long LiveBytes();
long MostBytes();
void ResetMostBytes();

// After this call, allocations by code between the addresses `begin` and `end`, such as a library's
// code, are also counted separately, by WatchedAllocations.
void WatchAllocations(uintptr_t begin, uintptr_t end);
long WatchedAllocations();
// Returns how many of the watched allocations the calling thread made.
long WatchedAllocationsHere();

}  // namespace ucudnn::bench
