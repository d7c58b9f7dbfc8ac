// The names of cuDNN's enumerators, as plans in JSON spell them.
#pragma once

#include <string_view>

namespace hostgpu {

enum class NameSet { kDataType, kPointwiseMode, kKnobType, kConvolutionMode, kReordering };

// Returns null for a value without a name.
const char* NameOf(NameSet set, int value);
// Returns false for a name without a value.
bool ValueOf(NameSet set, std::string_view name, int* value);

}  // namespace hostgpu
