// The memory that this machine can still give, as far as the system tells. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ucudnn::command {

// Returns the free bytes of the machine, or of this process's control group if it has fewer left. A
// number that the system does not tell is no limit.
int64_t FreeMemoryBytes();

// Fails if `bytes` exceeds FreeMemoryBytes(). The error is "A take 3 GiBB, and 2 GiB of memory are
// free; expected C", where A is `what`, B is `how` and C is `expected`.
Status CheckFreeMemory(int64_t bytes, const std::string& what, const std::string& how,
                       const std::string& expected);

}  // namespace ucudnn::command
