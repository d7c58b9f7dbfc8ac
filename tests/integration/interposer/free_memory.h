// Checks that a step of a test leaves no device memory allocated.
#pragma once

#include <cstddef>

namespace ucudnn::test {

// Returns the free memory of the current device in bytes.
size_t FreeMemory();

// Expects that `before` bytes are free. Under one budget for all kernels, ucudnn's own workspace
// may stay allocated while a handle exists.
void ExpectNothingStays(size_t before);

// The constructor notes how much memory is free, and the destructor expects that as much is free
// again. Not even ucudnn's workspace may stay allocated. REQUIRES: handles made in between are
// destroyed before the destructor runs.
class NothingStays {
 public:
  NothingStays();
  NothingStays(const NothingStays&) = delete;
  NothingStays& operator=(const NothingStays&) = delete;
  ~NothingStays();

 private:
  const size_t before_;
};

}  // namespace ucudnn::test
