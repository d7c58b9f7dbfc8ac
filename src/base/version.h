// The version of ucudnn, as the report and `ucudnn --version` state it, and of the report's format.
#pragma once

namespace ucudnn {

inline constexpr const char* kVersion = "0.1.0";
inline constexpr int kReportVersion = 2;  // of the format `ucudnn-report`

}  // namespace ucudnn
