// The version of ucudnn, which reports and `ucudnn --version` state, and the versions of the JSON
// formats of runs and workspace plans. Other formats have their versions where their code is.
#pragma once

namespace ucudnn {

inline constexpr const char* kVersion = "0.1.0";
inline constexpr int kReportVersion = 2;          // of `ucudnn-report`
inline constexpr int kWorkspaceTableVersion = 2;  // of `ucudnn-workspace-table`
inline constexpr int kWorkspacePlanVersion = 2;   // of `ucudnn-workspace-plan`

}  // namespace ucudnn
