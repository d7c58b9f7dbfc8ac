// What a call does beside its convolution, as far as splitting it depends on that. Plain values.
#pragma once

#include <cstdint>

namespace ucudnn::spatial {

struct CallForm {
  // An execution plan of the graph API: its scales are part of it, whatever a call says.
  bool is_plan = false;
  // cudnnConvolutionBiasActivationForward, or a plan with operations behind its convolution.
  bool is_fused = false;
  bool is_identity = false;   // its activation does nothing
  bool hides_nan = false;     // what is fused may make a number of NaN
  bool reads_result = false;  // beta is not 0, or z is y
  bool is_bias_gradient = false;
  bool is_replicated = false;  // all ranks have the same whole tensors: each makes its own call
  bool is_rows = false;     // nothing is computed: the rows beside the stripe are wanted themselves
  uint64_t operations = 0;  // hash of what is fused behind a plan's convolution, and its scale

  bool operator==(const CallForm&) const = default;
  uint64_t Hash() const {
    uint64_t number = operations;
    for (const bool bit : {is_plan, is_fused, is_identity, hides_nan, reads_result,
                           is_bias_gradient, is_replicated, is_rows}) {
      number = 2 * number + (bit ? 1 : 0);
    }
    return number;
  }
};

}  // namespace ucudnn::spatial
