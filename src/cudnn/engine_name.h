// Names of the graph API's engines, as GraphPlan::engine has them: "graph:38[k2=1,k14=0]", and what
// is fused behind the convolution, "+bias+relu". Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ucudnn::cudnn {

struct EngineName {
  int64_t index = 0;
  std::vector<std::pair<int, int64_t>> knobs;  // cudnnBackendKnobType_t and value
};

// None where `text` is no name, or names something fused.
std::optional<EngineName> ParseEngineName(std::string_view text);

// The name without what is fused.
std::string_view Unfused(std::string_view engine);

}  // namespace ucudnn::cudnn
