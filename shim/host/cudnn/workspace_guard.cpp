#include "shim/host/cudnn/workspace_guard.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "shim/host/engines/parallel.h"

namespace hostgpu {
namespace {

// Uses all threads. A single thread would make a run of a fast engine a tenth slower.
void FillWithPattern(unsigned char* bytes, size_t count) {
  constexpr size_t kPiece = size_t{1} << 20;
  const auto pieces = static_cast<int64_t>((count + kPiece - 1) / kPiece);
  ParallelFor(pieces, [&](int64_t piece) {
    const size_t from = static_cast<size_t>(piece) * kPiece;
    std::memset(bytes + from, WorkspaceGuard::kPattern, std::min(kPiece, count - from));
    return true;
  });
}

}  // namespace

WorkspaceGuard::WorkspaceGuard(void* workspace, size_t needed, size_t offered)
    : behind_(static_cast<unsigned char*>(workspace) + needed),
      guarded_(workspace == nullptr ? 0 : std::min(offered - needed, kGuardBytes)) {
  if (workspace == nullptr) return;
  FillWithPattern(static_cast<unsigned char*>(workspace), needed);
  std::memcpy(kept_.data(), behind_, guarded_);
}

bool WorkspaceGuard::RestoreBehind() {
  if (guarded_ == 0 || std::memcmp(kept_.data(), behind_, guarded_) == 0) return true;
  std::memcpy(behind_, kept_.data(), guarded_);
  return false;
}

}  // namespace hostgpu
