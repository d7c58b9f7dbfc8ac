// Checks that algorithms use only the workspace that they asked for. Before an algorithm runs, the
// bytes that it asked for are overwritten, so that it cannot rely on earlier contents. Afterwards
// the next bytes of the caller's workspace, at most kGuardBytes, must be unchanged.
#pragma once

#include <array>
#include <cstddef>

namespace hostgpu {

class WorkspaceGuard {
 public:
  static constexpr unsigned char kPattern = 0xA5;
  static constexpr size_t kGuardBytes = 256;

  // `workspace` has `offered` bytes; the algorithm asked for the first `needed` of them. Bytes
  // beyond `offered` are not checked, because another stream may use them.
  WorkspaceGuard(void* workspace, size_t needed, size_t offered);

  // Returns false if the algorithm wrote behind the bytes that it asked for. Restores the former
  // contents of the bytes behind them.
  bool RestoreBehind();

 private:
  unsigned char* behind_;
  size_t guarded_;
  std::array<unsigned char, kGuardBytes> kept_;
};

}  // namespace hostgpu
