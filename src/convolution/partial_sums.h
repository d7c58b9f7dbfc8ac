// Gradients of 16-bit filters in pieces: cuDNN's engines write them in 16 bits only. Each piece
// therefore leaves its partial in the workspace, and partials are summed there in fp32; the sum is
// scaled, blended and rounded into the output once, behind the last piece. Pure functions.
//
// Let u be the unit roundoff of the output's type (2^-11 fp16, 2^-8 bf16), p_i the partials of m
// pieces as their engines accumulate them, d the output's old content, and s the largest rounding
// among numbers that are not normal (2^-25 fp16, 2^-126 bf16). The result r differs from alpha
// sum_i p_i + beta d by at most
//   |alpha| (u + (m + 3) 2^-24) sum_i |p_i| + 2^-22 |beta d| + u |r| + (m |alpha| + 1) s,
// up to factors 1 + u (Higham: Accuracy and Stability of Numerical Algorithms, section 3.1). An
// undivided engine that rounds once differs by at most 2^-22 (|alpha p| + |beta d|) + u |r| + s:
// where partials do not cancel, m of them round at most twice as much. A partial that is infinite
// in 16 bits makes the result infinite or NaN.
#pragma once

#include <cstddef>

#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn {

// The engine under whose name the cost of one partial beside its piece is measured. The cost is
// that of adding the partial and, as a bound of what every plan needs once, of rounding the sum
// into the output.
inline constexpr EngineId::PartialSum kPartialSum;
inline constexpr int kPartialSumBatch = 1;  // the micro-batch under which that measurement is filed

// Sums, partials and the workspace of engines behind them are aligned as the workspace is, but at
// most to this.
inline constexpr size_t kPartialSumAlignment = 256;
// Rounds `bytes` up so that the next object in the workspace is aligned.
size_t InWorkspace(size_t bytes);

// Returns whether pieces of `problem` write partials that are summed apart from them.
bool SumsPartials(const ConvolutionProblem& problem);
inline bool IsPartial(const ConvolutionProblem& problem, int micro_batch) {
  return micro_batch < problem.n && SumsPartials(problem);
}
// A piece that computes only some filters is no partial.
bool IsPartial(const ConvolutionProblem& problem, const MicroConfiguration& micro);

// Workspace for the sum in fp32, then for one partial; multiples of kPartialSumAlignment.
size_t AccumulatorBytes(const ConvolutionProblem& problem);
size_t PartialSumBytes(const ConvolutionProblem& problem);  // bytes of the sum and one partial

// Converts `measured`, an engine's measurement, to that of one of several pieces: its workspace
// begins with the sum, and `sum_ms` is added to its time.
MicroConfiguration AsPartial(const ConvolutionProblem& problem, MicroConfiguration measured,
                             double sum_ms);
// Returns the part of its workspace that the engine itself uses; 0 if the rest would be negative.
size_t EngineBytes(const ConvolutionProblem& problem, const MicroConfiguration& micro);

}  // namespace ucudnn
