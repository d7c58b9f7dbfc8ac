// Computes how much two correct results of one convolution may differ. Pure functions.
//
// Plans are verified on integers (test_operands.h). The dense operand holds +-1 and +-2, and
// the sparse operand +-1 and 0. The sparse operand has so few nonzero elements that the magnitudes
// of the terms of one output element sum to at most 2^p. Here p is the precision, in bits, of the
// tensors' type or of the accumulation, whichever is smaller.
//
// With these operands direct engines are exact: every partial sum is an integer of at most 2^p.
// This holds in whatever order terms are summed, wherever sums are rounded, and with inputs
// converted to TF32 or 16 bits. It also holds in tensor cores, which truncate aligned addends, but
// never below the 24th bit (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor
// cores, 2021). So two direct engines agree in every bit, and the tolerance is 0, even if pieces
// round partials to the tensors' type before they are summed.
//
// Winograd and FFT engines round. Each of the T terms of an output element passes through
// transforms that amplify its rounding errors. The errors are modelled as independent with mean 0
// (Higham, Mary: A new approach to probabilistic rounding error analysis, 2019), so their squares
// add up:
//   sigma^2 = (a m)^2 (T (S uc^2 + 2 us^2) + T^2 uc^2 / 2)
// Here m = 2 is the largest term, and S the number of roundings that a term passes through in
// arithmetic of unit roundoff uc. Two roundings of stored transforms add 2 us^2, with us the unit
// roundoff of the stored type. The last summand is for adding up T amplified terms. The
// amplification a is the largest entry of sqrt(sum_t (A_it G_tj)^2 |B_t|^2), squared for two
// dimensions. It is 79.4 for F(4x4, 3x3) and F(3x3, 4x4) (points 0, 1, -1, 2, -2, inf). For 8x8
// tiles (points 1/2 and -1/2 added), the largest that cuDNN is known to use (3x3 and 5x5 filters),
// it is 114.2. An FFT's error grows only with sqrt(log2 of its length) (Schatzman: Accuracy of the
// discrete Fourier transform and the fast Fourier transform, 1996): three transforms of 2^16 points
// amplify by less than 16. Two engines differ by at most kDeviations sqrt(2) sigma, and by the
// rounding of the output (one unit in its last place, relatively 2^(1-p)).
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/numeric_class.h"
#include "convolution/problem.h"

namespace ucudnn::tuning {

// Finite elements a and b agree if |a - b| <= absolute + relative * max(|a|, |b|). A NaN or an
// infinity agrees with no finite element. It agrees with another NaN or infinity only if
// `specials_agree` is true, as it is for results of a caller's data.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
  bool specials_agree = false;
};

// Returns the coarsest numeric class among the legacy engines of `runs`; fails if a run has another
// engine.
Result<NumericClass> CoarsestClass(Operation operation, std::span<const Run> runs);

// Returns the bits of the significand, including the hidden one: integers up to 2^bits are exact.
int PrecisionBits(DataType type);

// Returns the largest number of nonzero terms for which the sum of an output element of `problem`
// is exact, whatever the order of the terms.
int64_t MaxExactTerms(const ConvolutionProblem& problem);

// Returns the most terms that an output element of `problem` has.
int64_t ReductionLength(const ConvolutionProblem& problem);

// Returns the tolerance for integer operands with at most `terms` terms in an output element.
// `numeric` is the coarser class of the two results' engines.
Tolerance IntegerTolerance(const ConvolutionProblem& problem, NumericClass numeric, int64_t terms);

// Returns whether a comparison with `tolerance` can show wrong results. Unrelated results differ by
// about the root mean square of an output element. This is sqrt(2.5 terms), because squares of +-1
// and +-2 average 2.5. Returns false if the tolerance exceeds this difference.
bool Discriminates(const Tolerance& tolerance, int64_t terms);
// Returns IntegerTolerance; fails if Discriminates is false for it.
Result<Tolerance> DiscriminatingTolerance(const ConvolutionProblem& problem, NumericClass numeric,
                                          int64_t terms);

// Returns the tolerance for data of any kind. The only known fact about the data is `largest`, the
// largest magnitude in the undivided result. In sums of R terms with random signs, partial sums are
// about as large as the results, and `largest` is at least q, the root of the sum of the squared
// terms. With the symbols at the top of this file, and with independent errors as there,
//   sigma^2 = (a q)^2 (S uc^2 + 2 us^2 + R uc^2 / 2).
// A direct engine has a = 1, S = 1, and us = 0 unless fp32 inputs may be converted. Partials that
// are rounded to the tensors' type before they are summed (convolution/partial_sums.h) add (u q)^2,
// with u the unit roundoff of that type.
//
// Sums that cancel have partial sums far above every result, so their rounding errors are larger.
// The tolerance allows errors that are kCancellation times as large. Sums that cancel still more
// may be reported although they are right. A bound that holds for all data would find no errors: it
// grows with the sum of |x||w|, which for gradients of filters is 1000 times the result.
Tolerance DataTolerance(const ConvolutionProblem& problem, NumericClass numeric, double largest);

}  // namespace ucudnn::tuning
