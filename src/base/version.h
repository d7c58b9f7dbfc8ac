// The version of ucudnn, as the report and `ucudnn --version` state it.
#pragma once

namespace ucudnn {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace ucudnn
