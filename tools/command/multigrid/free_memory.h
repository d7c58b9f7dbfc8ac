// The free memory that the system reports. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ucudnn::command {

// Returns the free bytes of the machine or of this process's control group, whichever is less. A
// number that the system does not report counts as unlimited.
int64_t FreeMemoryBytes();

// Fails if `bytes` exceeds FreeMemoryBytes(). The error is "WHAT take 3 GiB HOW, and 2 GiB of
// memory are free; expected EXPECTED", with the three texts in place of the words in capitals.
// `how` is empty or begins with a space.
Status CheckFreeMemory(int64_t bytes, const std::string& what, const std::string& how,
                       const std::string& expected);

}  // namespace ucudnn::command
