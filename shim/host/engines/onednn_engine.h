// Engines that are one oneDNN convolution primitive each, with everything it needs in the caller's
// workspace: copies of the tensors in the primitive's layouts and its scratchpad. 16-bit data is
// widened to fp32 on the way; fp64 is not served.
#pragma once

#include <cstddef>
#include <optional>

#include "shim/host/engines/engine.h"

namespace hostgpu {

enum class OnednnVariant {
  kBlocked,   // the layouts that oneDNN prefers; workspace grows with the batch
  kPlain,     // fp32 in the caller's own dense layout; workspace does not grow with the batch
  kWinograd,  // in a lower numerical class
};

// nullopt if oneDNN offers no such primitive better than its reference loops.
std::optional<size_t> OnednnWorkspaceBytes(const ConvolutionShape& shape, OnednnVariant variant);

// Like Run of engine.h. kPlain requires alpha = 1 and beta = 0.
bool RunOnednn(const ConvolutionShape& shape, OnednnVariant variant, double alpha, void* x, void* w,
               void* y, double beta, void* workspace);

}  // namespace hostgpu
