// How much memory this machine could still give, as far as the system says. Thread-safe.
#pragma once

#include <cstdint>

namespace ucudnn::command {

// Bytes; of the machine, or of this process's control group where that has less left. What cannot
// be known is no limit.
int64_t FreeMemoryBytes();

}  // namespace ucudnn::command
