// Checks that workspace promises are kept: the bytes that an algorithm asked for are overwritten
// before it runs (nothing may survive in them), and the caller's bytes behind them must stay
// unchanged.
#pragma once

#include <array>
#include <cstddef>

namespace hostgpu {

class WorkspaceGuard {
 public:
  static constexpr unsigned char kPattern = 0xA5;
  static constexpr size_t kGuardBytes = 256;

  // `workspace` holds `offered` bytes, of which the algorithm asked for the first `needed`. Bytes
  // behind `offered` are not looked at: they may be another stream's.
  WorkspaceGuard(void* workspace, size_t needed, size_t offered);

  // Returns false if the algorithm wrote behind the bytes that it asked for; these are restored.
  bool RestoreBehind();

 private:
  unsigned char* behind_;
  size_t guarded_;
  std::array<unsigned char, kGuardBytes> kept_;
};

}  // namespace hostgpu
