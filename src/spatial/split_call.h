// One split call of a rank as the program makes it, the properties that decide how a call is split,
// and the settings of all calls. Plain values.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/spatial_grid.h"
#include "convolution/problem.h"
#include "cudnn/functions.h"
#include "cudnn/graph_engines.h"
#include "cudnn/pooling_call.h"
#include "options/spatial_options.h"
#include "spatial/gradient_sums.h"

namespace ucudnn::spatial {

// The operation that a split call computes. Each operation is described as a convolution.
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

// The properties of a call, besides its convolution, that decide how it is split.
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

struct SplitSettings {
  SpatialGrid grid;
  std::string shared_options;  // ucudnn's version and the options that ranks must share, as text
  bool agrees_each_time = false;
  GradientSums* sums = nullptr;  // must outlive the calls; shared by all ranks of the process
  // The treatment of an axis along which every rank has extent 1. None: a call is refused if its
  // result depends on this treatment.
  std::optional<SpatialOnes> ones;
  // Returns the limit of memory for exchanges in bytes. Called at each agreement.
  std::function<size_t()> most_buffer_bytes;
  bool deterministic = false;
  bool waits_for_records = false;  // before a call runs, it waits for all ranks' records of it
  bool times_exchanges = false;    // the report contains the times of exchanges
  std::chrono::milliseconds warning{60000};   // a longer wait for a rank is reported to the user
  std::chrono::milliseconds timeout{600000};  // a longer wait for a rank is an error on all ranks
};

// The program's declarations about its calls, which must be the same on all ranks.
struct CallDeclarations {
  bool is_replicated = false;  // all ranks have the same whole tensors, and each makes its own call
  // kFirst and kSecond: this call is the first or the second of a pair, the data gradient and the
  // filter gradient of one convolution. Both calls read the same dy, so the second call uses the
  // rows that the first call received.
  enum class Pair : uint8_t { kNone, kFirst, kSecond };
  Pair pair = Pair::kNone;
  // True if the caller's stream waits for sums of gradients only in SplitCalls::Await.
  bool is_deferred = false;
};

// One call, on the stream of its handle.
struct SplitCall {
  const ConvolutionProblem& problem;  // of this rank's stripe
  const cudnn::ConvolutionCall& call;
  CUcontext context = nullptr;  // of the stream; null: the current context
  CUstream stream = nullptr;
  bool is_captured = false;
  // The execution plan of the graph API that the call runs; null for a call of the legacy API.
  const cudnn::GraphTemplate* plan = nullptr;
  // The kind of work, which decides what `problem` and `call` contain:
  // - kBiasGradient: the problem has one input channel, and the call has no image.
  // - kRows: y is x together with the rows around it that a filter with the problem's padding
  //   reads. The problem has a filter of 2 pad + 1 taps for each channel.
  // - kPooling: the problem is from ReadPooling; `pooling` is the kind of pooling.
  // - kNorm: the problem is from ReadNorm, and the call has the arguments of the normalisation.
  SplitWork work = SplitWork::kConvolution;
  cudnn::PoolingKind pooling;
  CallDeclarations declared;
};

// Returns the extents of y in a kRows call: x with pad rows on both sides along each axis.
Spatial WithRowsBeside(const ConvolutionProblem& problem);

// Returns a text of the operations fused behind a plan's convolution; empty if there are none.
std::string_view FusionOf(const SplitCall& call);

CallProperties FormOf(const cudnn::Functions& functions, const SplitCall& call);

}  // namespace ucudnn::spatial
