// Counts heap allocations of the whole process. allocation_count.cpp replaces malloc and the
// functions like it, also for libraries that are loaded later. Sanitizer builds cannot use it,
// since they have an allocator of their own.
#pragma once

#include <cstdint>

namespace ucudnn::bench {

// Returns the number of allocations that all threads have made so far.
long Allocations();

// LiveBytes returns the number of bytes that are allocated now. MostBytes returns the largest such
// number since ResetMostBytes. Sizes are rounded up as the allocator does, and do not include its
// headers.
long LiveBytes();
long MostBytes();
void ResetMostBytes();

// From now on allocations whose caller's code lies between `begin` and `end` are also counted
// separately, by WatchedAllocations. The range is that of a library, for example.
void WatchAllocations(uintptr_t begin, uintptr_t end);
long WatchedAllocations();
// Returns how many of the watched allocations the calling thread made.
long WatchedAllocationsHere();

}  // namespace ucudnn::bench
