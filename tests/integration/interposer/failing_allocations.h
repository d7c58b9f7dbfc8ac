// Counts allocations of host memory inside libucudnn.so, and makes them fail. The program that
// links this has its own malloc and realloc; allocations of other code succeed.
#pragma once

namespace ucudnn::test {

// Returns false if a sanitizer keeps malloc for itself.
bool AllocationsCanFail();

// Makes the k-th allocation from now on fail, in whichever thread; 0 makes none fail.
void FailAllocation(long kth);
// Ends what FailAllocation began. Returns the number of allocations since then.
long AllocationsSince();

}  // namespace ucudnn::test
