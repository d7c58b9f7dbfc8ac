// Counts heap allocations of the whole process: allocation_count.cpp replaces malloc and its kin,
// for libraries that are loaded later, too. Sanitizer builds, which have their own allocator,
// cannot use it.
#pragma once

#include <cstdint>

namespace ucudnn::bench {

// Returns how often any thread has allocated so far.
long Allocations();

// Return the bytes that are allocated now, and the most since ResetMostBytes. Bytes are rounded as
// the allocator rounds them, without its own headers.
long LiveBytes();
long MostBytes();
void ResetMostBytes();

// Also counts the allocations whose caller's code lies from `begin` to `end`, such as a library's
// own.
void WatchAllocations(uintptr_t begin, uintptr_t end);
long WatchedAllocations();
// Returns how many of the watched allocations the calling thread made.
long WatchedAllocationsHere();

}  // namespace ucudnn::bench
