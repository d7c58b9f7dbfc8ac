// A device that does nothing of what it is given, and counts it: what remains of a call is the
// caller's own time and memory. Whatever makes objects, and plans, is the stand-in's.
#pragma once

#include "cuda/driver.h"
#include "cudnn/functions.h"

namespace ucudnn::test {

struct NullDevice {
  cudnn::Functions functions;
  cuda::Driver driver;
};

// The tables. Thread-safe; counts are of all such devices together.
NullDevice MakeNullDevice();

// Calls so far by which work is enqueued or waited for.
long NullCalls();
// Of those the launches of graphs.
long NullGraphLaunches();

}  // namespace ucudnn::test
