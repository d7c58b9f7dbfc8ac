#include "shim/host/engines/engine.h"

#include <new>

#include "shim/host/engines/implicit_gemm.h"
#include "shim/host/engines/onednn_engine.h"

namespace hostgpu {
namespace {

// Returns the oneDNN variant of an algorithm, which is given by its number in cuDNN's enumeration
// for the operation.
std::optional<OnednnVariant> VariantOf(Operation operation, int algorithm) {
  if (algorithm == 1) return OnednnVariant::kBlocked;
  if (algorithm == 2 && operation == Operation::kForward) return OnednnVariant::kPlain;
  if (algorithm == WinogradOf(operation)) return OnednnVariant::kWinograd;
  return std::nullopt;
}

}  // namespace

std::optional<size_t> WorkspaceBytes(const ConvolutionShape& shape, int algorithm) {
  if (shape.type == DataType::kInt8) {
    const bool serves = algorithm == 1 && shape.operation == Operation::kForward;
    return serves ? std::optional<size_t>(0) : std::nullopt;
  }
  if (algorithm == 0) return 0;
  const auto variant = VariantOf(shape.operation, algorithm);
  return variant ? OnednnWorkspaceBytes(shape, *variant) : std::nullopt;
}

bool IsDeterministic(const ConvolutionShape& shape, int algorithm) {
  return algorithm != 0 || shape.operation == Operation::kForward;
}

bool Run(const ConvolutionShape& shape, int algorithm, double alpha, void* x, void* w, void* y,
         double beta, void* workspace) try {
  if (algorithm == 0 || shape.type == DataType::kInt8) {
    return RunImplicitGemm(shape, alpha, x, w, y, beta);
  }
  const auto variant = VariantOf(shape.operation, algorithm);
  if (!variant) return false;
  // In the plain layout, oneDNN's primitive writes to y itself, so it can neither scale by alpha
  // nor add beta * y. Implicit GEMM computes such a call instead.
  if (*variant == OnednnVariant::kPlain && (alpha != 1 || beta != 0)) {
    return OnednnWorkspaceBytes(shape, *variant) && RunImplicitGemm(shape, alpha, x, w, y, beta);
  }
  return RunOnednn(shape, *variant, alpha, x, w, y, beta, workspace);
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace hostgpu
