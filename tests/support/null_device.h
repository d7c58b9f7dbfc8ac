// A device that does no work and only counts calls, so that a call costs only the caller's own time
// and memory. Functions that make objects and plans come from the stand-in.
#pragma once

#include "cuda/driver.h"
#include "cudnn/functions.h"

namespace ucudnn::test {

struct NullDevice {
  cudnn::Functions functions;
  cuda::Driver driver;
};

// Returns the function tables of a device that only counts calls. Thread-safe. All devices share
// one set of counts.
NullDevice MakeNullDevice();

// Returns the number of calls so far that enqueue work or wait for it.
long NullCalls();
// Returns the number of graph launches so far. NullCalls() counts them, too.
long NullGraphLaunches();

}  // namespace ucudnn::test
