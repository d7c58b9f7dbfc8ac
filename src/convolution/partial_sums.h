// How pieces compute the gradient of a 16-bit filter. cuDNN's engines round each result to 16 bits,
// so adding pieces in the output would round once per piece. Instead each piece writes a partial,
// its share of the gradient, to the workspace, and the partials are summed there in fp32. After the
// last piece the sum is scaled, blended and rounded into the output once. Pure functions.
//
// Let u be the unit roundoff of the output's type (2^-11 fp16, 2^-8 bf16), p_i the partials of m
// pieces as their engines accumulate them, d the output's old content, and s the largest rounding
// error of subnormal numbers (2^-25 fp16, 2^-126 bf16). The result r differs from alpha sum_i p_i +
// beta d by at most
//   |alpha| (u + (m + 3) 2^-24) sum_i |p_i| + 2^-22 |beta d| + u |r| + (m |alpha| + 1) s,
// up to factors 1 + u (Higham: Accuracy and Stability of Numerical Algorithms, section 3.1). An
// undivided engine accumulates one sum p and rounds once. Its result r differs from alpha p + beta
// d by at most 2^-22 (|alpha p| + |beta d|) + u |r| + s. So if partials do not cancel, the error
// with m partials is at most twice the error of an undivided engine. A partial that is infinite in
// 16 bits makes the result infinite or NaN.
#pragma once

#include <cstddef>

#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn {

// The engine under whose name the extra time of one partial is measured: the time of adding the
// partial to the sum and of rounding the sum into the output. The partials of a plan are rounded
// only once, so for several partials the measured time is an upper bound.
inline constexpr EngineId::PartialSum kPartialSum;
inline constexpr int kPartialSumBatch = 1;  // the micro-batch of that measurement in the store

// In the workspace, the sum, the partial and the engine's own workspace begin at multiples of this
// offset. Their addresses are aligned to it only if the workspace's address is.
inline constexpr size_t kPartialSumAlignment = 256;
// Rounds `bytes` up to a multiple of kPartialSumAlignment, where the next object in the workspace
// begins.
size_t InWorkspace(size_t bytes);

// Returns whether pieces of `problem` write partials that are summed in the workspace.
bool SumsPartials(const ConvolutionProblem& problem);
inline bool IsPartial(const ConvolutionProblem& problem, int micro_batch) {
  return micro_batch < problem.n && SumsPartials(problem);
}
// Returns whether a piece computes a partial: SumsPartials(problem) holds, and the piece has fewer
// images or sums over a part of dy. A piece that only computes fewer filters computes no partial.
bool IsPartial(const ConvolutionProblem& problem, const MicroConfiguration& micro);

// Returns the bytes of the fp32 sum in the workspace, a multiple of kPartialSumAlignment.
size_t AccumulatorBytes(const ConvolutionProblem& problem);
// Returns the bytes of the sum and one partial together, each rounded up to kPartialSumAlignment.
size_t PartialSumBytes(const ConvolutionProblem& problem);

// Converts `measured`, the measurement of an engine, to the measurement of a piece that computes a
// partial. The piece's workspace also holds the sum and the partial, and `sum_ms` is added to the
// time.
MicroConfiguration AsPartial(const ConvolutionProblem& problem, MicroConfiguration measured,
                             double sum_ms);
// Returns the bytes of the piece's workspace that the engine itself uses: those beyond the sum and
// the partial, if the piece computes a partial, and otherwise all.
size_t EngineBytes(const ConvolutionProblem& problem, const MicroConfiguration& micro);

}  // namespace ucudnn
