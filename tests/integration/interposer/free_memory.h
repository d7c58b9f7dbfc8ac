// Device memory that a step of a test leaves behind.
#pragma once

#include <cstddef>

namespace ucudnn::test {

// Of the current device.
size_t FreeMemory();

// Nothing is left of what was taken since `before` were free. Under one budget for all kernels the
// own workspace of ucudnn may be, as long as there is a handle.
void ExpectNothingStays(size_t before);

// The same once every handle is gone that was made after it: then not even ucudnn's workspace
// is left.
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
