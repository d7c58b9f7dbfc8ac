// Engines that consist of one oneDNN convolution primitive each. The caller's workspace holds the
// primitive's scratchpad and copies of the tensors in the primitive's layouts. 16-bit data is
// converted to fp32 in these copies; fp64 is not supported.
#pragma once

#include <cstddef>
#include <optional>

#include "shim/host/engines/engine.h"

namespace hostgpu {

enum class OnednnVariant {
  kBlocked,   // oneDNN's preferred layouts; workspace grows with the batch
  kPlain,     // fp32 in the caller's dense layout; workspace is the same for every batch
  kWinograd,  // Winograd, with coarser rounding
};

// Returns nullopt if oneDNN has no primitive for this shape except its slow reference loops.
std::optional<size_t> OnednnWorkspaceBytes(const ConvolutionShape& shape, OnednnVariant variant);

// Computes what Run of engine.h computes. kPlain requires alpha = 1 and beta = 0.
bool RunOnednn(const ConvolutionShape& shape, OnednnVariant variant, double alpha, void* x, void* w,
               void* y, double beta, void* workspace);

}  // namespace hostgpu
