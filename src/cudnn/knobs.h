// Knobs of graph engines by name and by number (cudnnBackendKnobType_t). Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ucudnn::cudnn {

// "CUDNN_KNOB_TYPE_TILE_SIZE" is 2; none for a knob this version does not know.
std::optional<int> KnobNumber(std::string_view name);
// The reverse.
std::optional<std::string> KnobName(int number);

}  // namespace ucudnn::cudnn
