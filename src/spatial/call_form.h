// What a call does beside its convolution, as far as splitting it depends on that. Plain values.
#pragma once

#include <cstdint>

#include "cudnn/pooling_call.h"

namespace ucudnn::spatial {

// What a split call computes, if it is no convolution in a form that looks like one.
enum class SplitWork : uint8_t {
  kConvolution,
  kBiasGradient,  // that of a filter of one tap over an image of ones
  kRows,          // nothing is computed: the rows beside the stripe are wanted themselves
  kPooling,       // a channel's window for each channel, forward and backward_data
  kNorm,          // batch normalisation in training, and its gradient as backward_data
};

// Whether the call gives gradients of parameters, which ranks sum: of filters and biases, or of a
// norm's scale and bias.
inline bool HasParameterGradient(Operation operation, SplitWork work) {
  return operation == Operation::kBackwardFilter ||
         (work == SplitWork::kNorm && operation == Operation::kBackwardData);
}

struct CallForm {
  SplitWork work = SplitWork::kConvolution;
  // An execution plan of the graph API: its scales are part of it, whatever a call says.
  bool is_plan = false;
  // cudnnConvolutionBiasActivationForward, or a plan with operations behind its convolution.
  bool is_fused = false;
  bool is_identity = false;    // its activation does nothing
  bool hides_nan = false;      // what is fused, or a maximum, may make a number of NaN
  bool reads_result = false;   // beta is not 0, or z is y
  bool is_replicated = false;  // all ranks have the same whole tensors: each makes its own call
  bool recomputes = false;     // a norm's gradient that is given no statistics
  uint64_t operations = 0;     // hash of what is fused behind a plan's convolution, and its scale;
                               // of a norm, its epsilon
  cudnn::PoolingKind pooling;  // of kPooling

  bool operator==(const CallForm&) const = default;
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
