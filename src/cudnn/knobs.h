// Knobs of graph engines by name and by number (cudnnBackendKnobType_t). Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ucudnn::cudnn {

// Returns 2 for "CUDNN_KNOB_TYPE_TILE_SIZE"; none for a knob that this version does not know.
std::optional<int> KnobNumber(std::string_view name);
// Returns the name of the knob with this number; none for a number that this version does not know.
std::optional<std::string> KnobName(int number);

}  // namespace ucudnn::cudnn
