// A piece of a plan: one engine at one micro-batch, whichever API it belongs to, ready to be
// enqueued any number of times. Immutable and thread-safe as far as cuDNN is; running one allocates
// nothing of ours.
#pragma once

#include <cstddef>

#include "cudnn/convolution_call.h"
#include "cudnn/descriptors.h"

namespace ucudnn::cudnn {

class Piece {
 public:
  virtual ~Piece() = default;
  // Enqueues the piece on call.handle's stream. The call's pointers are the piece's own, and its
  // workspace is what the piece may use. A piece that needs descriptors takes those without a batch
  // from the call. `accumulate`: adds to the output, whatever the call's beta is.
  virtual cudnnStatus_t Run(const ConvolutionCall& call, bool accumulate) const = 0;
  // The alignment in bytes that the pointer to a gradient of the filter must have.
  virtual size_t FilterAlignment() const { return kLegacyAlignment; }
};

}  // namespace ucudnn::cudnn
