#include "shim/host/cudnn/workspace_guard.h"

#include <algorithm>
#include <cstring>

namespace hostgpu {

WorkspaceGuard::WorkspaceGuard(void* workspace, size_t needed, size_t offered)
    : behind_(static_cast<unsigned char*>(workspace) + needed),
      guarded_(workspace == nullptr ? 0 : std::min(offered - needed, kGuardBytes)) {
  if (workspace == nullptr) return;
  std::memset(workspace, kPattern, needed);
  std::memcpy(kept_.data(), behind_, guarded_);
}

bool WorkspaceGuard::RestoreBehind() {
  if (guarded_ == 0 || std::memcmp(kept_.data(), behind_, guarded_) == 0) return true;
  std::memcpy(behind_, kept_.data(), guarded_);
  return false;
}

}  // namespace hostgpu
