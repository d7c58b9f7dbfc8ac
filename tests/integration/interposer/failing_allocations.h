// Allocations of host memory inside libucudnn.so, counted and made to fail. The program that links
// this brings its own malloc and realloc; others' allocations pass.
#pragma once

namespace ucudnn::test {

// False where a sanitizer keeps malloc for itself.
bool AllocationsCanFail();

// Makes the k-th allocation from now on fail, in whichever thread; 0: none does.
void FailAllocation(long kth);
// Ends what FailAllocation began; the allocations there were.
long AllocationsSince();

}  // namespace ucudnn::test
