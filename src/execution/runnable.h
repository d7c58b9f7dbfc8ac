// What runs in place of a convolution call. Implementations are immutable once made: a call
// allocates nothing, takes no lock and does not synchronise.
#pragma once

#include <cudnn.h>

#include "cudnn/convolution_call.h"

namespace ucudnn::execution {

enum class Outcome {
  kPlanned,    // every piece was enqueued
  kUndivided,  // the undivided engine replaced the pieces; the status is its own
  // A piece failed after others had changed the output, which a rerun would read; the status is the
  // real error.
  kFailed,
  // The output was not touched, because the workspace is missing or too small; or, with its error
  // as status, a piece failed that no undivided engine replaces, and whatever runs next may write
  // all of the output again.
  kNotAttempted,
};

class Runnable {
 public:
  virtual ~Runnable() = default;

  // Enqueues `call` in at most the workspace that it passes. Where a piece fails and the output is
  // unchanged, or may be written again, the undivided engine runs instead.
  virtual cudnnStatus_t Run(const cudnn::ConvolutionCall& call, Outcome& outcome) const = 0;
  // Enqueues the undivided engine alone, in the same workspace.
  virtual cudnnStatus_t RunUndivided(const cudnn::ConvolutionCall& call,
                                     Outcome& outcome) const = 0;
  // Whether `workspace` is aligned as the pieces need it.
  virtual bool Suits(const void* workspace) const = 0;

  virtual bool has_pieces() const = 0;
  virtual bool has_undivided() const = 0;
};

}  // namespace ucudnn::execution
