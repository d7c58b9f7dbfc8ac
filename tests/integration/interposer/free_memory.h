// Observes the device memory that a step of a test leaves behind.
#pragma once

#include <cstddef>

namespace ucudnn::test {

// Returns the free memory of the current device.
size_t FreeMemory();

// Expects that nothing is left of what was taken since `before` bytes were free. Under one budget
// for all kernels, ucudnn's own workspace may be left as long as there is a handle.
void ExpectNothingStays(size_t before);

// Expects in its destructor that nothing is left, not even ucudnn's workspace. REQUIRES: all
// handles made after its construction are destroyed.
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
