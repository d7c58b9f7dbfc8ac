// A piece: one engine of the legacy or the graph API, for one part of a convolution, ready to be
// enqueued any number of times. Immutable and thread-safe as far as cuDNN is; running a piece
// allocates nothing in ucudnn.
#pragma once

#include <cstddef>

#include "cudnn/convolution_call.h"
#include "cudnn/descriptors.h"
#include "cudnn/functions.h"

namespace ucudnn::cudnn {

class Piece {
 public:
  virtual ~Piece() = default;
  // Enqueues the piece on the stream of call.handle. The pointers of `call` point to the part, and
  // its workspace is the memory that the piece may use. Where `call` has no descriptor, the piece
  // uses its own. With `adds` the piece adds to the output, whatever the call's beta is.
  virtual cudnnStatus_t Run(const ConvolutionCall& call, bool adds) const = 0;

  // Populate fills a graph with the work that Run would enqueue; Update replaces the operands in
  // such a graph. Both return CUDNN_STATUS_NOT_SUPPORTED for pieces of the legacy API, which has no
  // such functions.
  virtual cudnnStatus_t Populate(const ConvolutionCall&, bool /*adds*/, cudaGraph_t) const {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  virtual cudnnStatus_t Update(const ConvolutionCall&, bool /*adds*/, cudaGraph_t) const {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }

  // Returns the most bytes of workspace that Run uses.
  virtual size_t workspace_bytes() const = 0;
  // Returns the alignment in bytes that the pointer to a gradient of the filter must have.
  virtual size_t FilterAlignment() const { return kLegacyAlignment; }
};

}  // namespace ucudnn::cudnn
