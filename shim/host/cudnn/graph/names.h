// The names of cuDNN's enumerators in plans in JSON.
#pragma once

#include <string_view>

namespace hostgpu {

enum class NameSet { kDataType, kPointwiseMode, kKnobType, kConvolutionMode, kReordering };

// Returns the name of a value; null if it has none.
const char* NameOf(NameSet set, int value);
// Sets `value` to the value of a name; returns false if there is no such name.
bool ValueOf(NameSet set, std::string_view name, int* value);

}  // namespace hostgpu
