// The properties of a call, besides its convolution, that decide how it is split. Plain values.
#pragma once

#include <cstdint>

#include "cudnn/pooling_call.h"

namespace ucudnn::spatial {

// The operation that a split call computes. All kinds are described in the form of a convolution.
enum class SplitWork : uint8_t {
  kConvolution,
  kBiasGradient,  // a filter gradient with a filter of one tap, over an image of ones
  kRows,          // computes nothing: the result is the stripe together with the neighbours' rows
  kPooling,       // forward and backward_data with one window for each channel
  kNorm,          // batch normalisation in training; its gradient is described as backward_data
};

// Returns whether the call computes gradients of parameters, which are summed over ranks: of
// filters, biases, or a norm's scale and bias.
inline bool HasParameterGradient(Operation operation, SplitWork work) {
  return operation == Operation::kBackwardFilter ||
         (work == SplitWork::kNorm && operation == Operation::kBackwardData);
}

struct CallProperties {
  SplitWork work = SplitWork::kConvolution;
  // True if the call runs an execution plan of the graph API. The scales are then in the plan.
  bool is_plan = false;
  // True if the call is cudnnConvolutionBiasActivationForward, or a plan with operations fused
  // behind its convolution.
  bool is_fused = false;
  bool is_identity = false;    // the fused activation is the identity
  bool hides_nan = false;      // a fused operation or a maximum may turn NaN into a number
  bool reads_result = false;   // the call reads the old content of its output: beta is not 0, or z
                               // is y
  bool is_replicated = false;  // all ranks have the same whole tensors, and each makes its own call
  bool recomputes = false;     // a norm's gradient that gets no saved statistics and computes them
  // A hash of the operations fused behind a plan's convolution and of the plan's alpha; for a norm,
  // a hash of its epsilon.
  uint64_t operations = 0;
  cudnn::PoolingKind pooling;  // set for kPooling

  bool operator==(const CallProperties&) const = default;
  uint64_t Hash() const {
    uint64_t number = operations;
    for (const bool bit :
         {is_plan, is_fused, is_identity, hides_nan, reads_result, is_replicated, recomputes}) {
      number = 2 * number + (bit ? 1 : 0);
    }
    number = 8 * number + static_cast<uint64_t>(work);
    return 8 * number + static_cast<uint64_t>(pooling.mode) * 2 +
           static_cast<uint64_t>(pooling.nan == CUDNN_PROPAGATE_NAN ? 1 : 0);
  }
};

}  // namespace ucudnn::spatial
