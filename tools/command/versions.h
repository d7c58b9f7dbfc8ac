// Version numbers as people write them. Pure functions.
#pragma once

#include <cstddef>
#include <string>

namespace ucudnn::command {

// "9.19.0" from what cudnnGetVersion returns.
std::string CudnnVersion(size_t version);

// "13.0" from what cuDriverGetVersion gives.
std::string DriverVersion(int version);

}  // namespace ucudnn::command
