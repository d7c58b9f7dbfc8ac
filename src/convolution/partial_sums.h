// Gradients of 16-bit filters in pieces. cuDNN's engines round each result to 16 bits, so adding
// pieces in the output would round once per piece. Instead each piece writes a partial, its share
// of the gradient, to the workspace, where partials are summed in fp32; after the last piece the
// sum is scaled, blended and rounded into the output once. Pure functions.
//
// Let u be the unit roundoff of the output's type (2^-11 fp16, 2^-8 bf16), p_i the partials of m
// pieces as their engines accumulate them, d the output's old content, and s the largest rounding
// error of subnormal numbers (2^-25 fp16, 2^-126 bf16). The result r differs from alpha sum_i p_i +
// beta d by at most
//   |alpha| (u + (m + 3) 2^-24) sum_i |p_i| + 2^-22 |beta d| + u |r| + (m |alpha| + 1) s,
// up to factors 1 + u (Higham: Accuracy and Stability of Numerical Algorithms, section 3.1). An
// undivided engine that rounds once differs by at most 2^-22 (|alpha p| + |beta d|) + u |r| + s. So
// if partials do not cancel, the error with m partials is at most twice the error of an undivided
// engine. A partial that is infinite in 16 bits makes the result infinite or NaN.
#pragma once

#include <cstddef>

#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn {

// The engine under whose name the extra cost of one partial is measured: adding the partial to the
// sum and rounding the sum into the output. Plans round only once, so for several partials the
// measured cost is an upper bound.
inline constexpr EngineId::PartialSum kPartialSum;
inline constexpr int kPartialSumBatch = 1;  // the micro-batch under which that measurement is filed

// Sums, partials and the engine workspace that follows them begin at multiples of this offset;
// their addresses are aligned to it only if the workspace itself is.
inline constexpr size_t kPartialSumAlignment = 256;
// Rounds `bytes` up to a multiple of kPartialSumAlignment, where the next object in the workspace
// begins.
size_t InWorkspace(size_t bytes);

// Returns whether pieces of `problem` write partials that are summed in the workspace.
bool SumsPartials(const ConvolutionProblem& problem);
inline bool IsPartial(const ConvolutionProblem& problem, int micro_batch) {
  return micro_batch < problem.n && SumsPartials(problem);
}
// Returns whether a piece computes partials: it has fewer images, or sums over a part of dy. A
// piece that only computes fewer filters is not a partial.
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
// Returns the bytes that the engine itself uses of the piece's workspace; 0 if the sum and the
// partial take the whole workspace.
size_t EngineBytes(const ConvolutionProblem& problem, const MicroConfiguration& micro);

}  // namespace ucudnn
