// Gradients of 16-bit filters in pieces: cuDNN's engines write them in 16 bits only, so each piece
// leaves its partial in the workspace, where partials are summed in fp32; the sum is scaled,
// blended and rounded into the output once, behind the last piece. Pure functions.
//
// With the unit roundoff u of the output's type (2^-11 fp16, 2^-8 bf16), partials p_i of m pieces
// as their engines accumulate them, and the output's old content d, the result r is within
//   |alpha| (u + (m + 3) 2^-24) sum_i |p_i| + 2^-22 |beta d| + u |r| + (m |alpha| + 1) s
// of alpha sum_i p_i + beta d, but for factors 1 + u (Higham: Accuracy and Stability of Numerical
// Algorithms, section 3.1); s is the largest rounding among numbers that are not normal (2^-25
// fp16, 2^-126 bf16). Of an undivided engine that rounds once only 2^-22 (|alpha p| + |beta d|) +
// u |r| + s can be said: where partials do not cancel, m of them round at most twice as much. A
// partial that is infinite in 16 bits makes the result infinite or NaN.
#pragma once

#include <cstddef>

#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn {

// The engine in whose name it is measured what one partial adds to its piece: adding it, and, as a
// bound of what every plan needs once, rounding the sum into the output.
inline constexpr EngineId::PartialSum kPartialSum;
inline constexpr int kPartialSumBatch = 1;  // the micro-batch under which it is filed

// Sums, partials and what engines use behind them are aligned as the workspace is, up to this.
inline constexpr size_t kPartialSumAlignment = 256;
// `bytes` with what is left free behind them, so that the next ones are aligned again.
size_t InWorkspace(size_t bytes);

// Whether pieces of `problem` write partials that are summed apart from them.
bool SumsPartials(const ConvolutionProblem& problem);
inline bool IsPartial(const ConvolutionProblem& problem, int micro_batch) {
  return micro_batch < problem.n && SumsPartials(problem);
}
// Parts of some filters alone are no partials of theirs.
bool IsPartial(const ConvolutionProblem& problem, const MicroConfiguration& micro);

// Workspace for the sum in fp32, then for one partial; multiples of kPartialSumAlignment.
size_t AccumulatorBytes(const ConvolutionProblem& problem);
size_t PartialSumBytes(const ConvolutionProblem& problem);  // of both

// `measured`, an engine's measurement, as one of several pieces: its workspace holds the sum before
// what the engine uses, its time has `sum_ms` added.
MicroConfiguration AsPartial(const ConvolutionProblem& problem, MicroConfiguration measured,
                             double sum_ms);
// What of its workspace is the engine's own; 0 where that would be less than nothing.
size_t EngineBytes(const ConvolutionProblem& problem, const MicroConfiguration& micro);

}  // namespace ucudnn
