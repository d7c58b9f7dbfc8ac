// How much memory this machine can still give, as far as the system says. Thread-safe.
#pragma once

#include <cstdint>

namespace ucudnn::command {

// Returns the free bytes of the machine, or of this process's control group if it has fewer left.
// An unknown number is no limit.
int64_t FreeMemoryBytes();

}  // namespace ucudnn::command
