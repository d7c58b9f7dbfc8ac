// Heap allocations of the whole process: allocation_count.cpp replaces malloc and its kin, for
// libraries loaded later too. Not for sanitizer builds, which have an allocator of their own.
#pragma once

namespace ucudnn::bench {

// Allocations by any thread so far.
long Allocations();

}  // namespace ucudnn::bench
