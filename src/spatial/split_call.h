// One split call of a rank as it comes in, and what is set for all of them. Plain values.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/spatial_grid.h"
#include "base/spatial_options.h"
#include "convolution/problem.h"
#include "cudnn/functions.h"
#include "spatial/call_form.h"
#include "spatial/gradient_sums.h"

namespace ucudnn::spatial {

struct SplitSettings {
  SpatialGrid grid;
  std::string shared_options;  // ucudnn's version and the options that ranks must share, in words
  bool agrees_each_time = false;
  GradientSums* sums = nullptr;  // outlives the calls, and is that of the process's other ranks
  std::optional<SpatialOnes>
      ones;  // what maps of extent 1 on every rank are; none: refused where it matters
  // What exchanges may take from now on: read at each agreement.
  std::function<size_t()> most_buffer_bytes;
  bool deterministic = false;
  bool waits_for_records = false;             // each call waits until all ranks have posted theirs
  bool times_exchanges = false;               // for a report
  std::chrono::milliseconds warning{60000};   // after which a rank that does not come is told of
  std::chrono::milliseconds timeout{600000};  // and after which it is an error on all
};

// What the program says of its calls, on all ranks alike.
struct Declared {
  bool is_replicated = false;  // all ranks have the same whole tensors: each makes its call alone
  // This call and the next are the data and the filter gradient of one convolution and read the
  // same values of dy: the second takes the rows that the first received.
  enum class Pair : uint8_t { kNone, kFirst, kSecond };
  Pair pair = Pair::kNone;
  // The caller's stream does not wait for sums of gradients until it is told to (Await).
  bool is_deferred = false;
};

// One call as it comes in, on the stream of its handle.
struct SplitCall {
  const ConvolutionProblem& problem;  // the rank's own
  const cudnn::ConvolutionCall& call;
  CUcontext context = nullptr;  // of the stream; null: the current one
  CUstream stream = nullptr;
  bool is_captured = false;
  // The plan of the graph API that the call executes; null: it is one of the legacy API.
  const cudnn::GraphTemplate* plan = nullptr;
  // kBiasGradient: the problem has one input channel, and the call no image. kRows: y is x with as
  // many rows around it as a filter with this padding reads; the problem has a channel's filter for
  // each channel, of 2 pad + 1 taps. kPooling: the problem is one of ReadPooling, in its kind.
  // kNorm: it is one of ReadNorm, and the call has what is normalised.
  SplitWork work = SplitWork::kConvolution;
  cudnn::PoolingKind pooling;
  Declared declared;
};

// The extents of y in a call for rows: those of x, with the rows beside.
Spatial WithRowsBeside(const ConvolutionProblem& problem);

// What is fused behind a plan's convolution, in words; empty: nothing.
std::string_view FusionOf(const SplitCall& call);

// What the call does beside its convolution.
CallForm FormOf(const cudnn::Functions& functions, const SplitCall& call);

}  // namespace ucudnn::spatial
