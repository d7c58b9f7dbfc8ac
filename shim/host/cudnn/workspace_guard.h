// Keeps the promise about workspace honest: the bytes an algorithm asked for are overwritten before
// it runs (nothing may survive in them), and the caller's bytes behind them must come out
// untouched.
#pragma once

#include <array>
#include <cstddef>

namespace hostgpu {

class WorkspaceGuard {
 public:
  static constexpr unsigned char kPattern = 0xA5;
  static constexpr size_t kGuardBytes = 256;

  // `workspace` holds `offered` bytes, of which the algorithm asked for the first `needed`. Nothing
  // behind `offered` is looked at: it may be another stream's.
  WorkspaceGuard(void* workspace, size_t needed, size_t offered);

  // False where the algorithm wrote behind what it asked for; what it overwrote is put back.
  bool RestoreBehind();

 private:
  unsigned char* behind_;
  size_t guarded_;
  std::array<unsigned char, kGuardBytes> kept_;
};

}  // namespace hostgpu
