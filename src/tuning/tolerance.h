// How much two correct results of one convolution may differ. Pure functions.
//
// Plans are verified on integers (test_operands.h): one operand holds +-1 and +-2, the other +-1
// and 0, and it has so few nonzero elements that the magnitudes of the terms of one output element
// sum to at most 2^p, where p is the precision in bits of the narrower of the tensors' type and the
// accumulation.
//
// With these operands direct engines are exact: every partial sum is an integer of at most 2^p, in
// whatever order terms are summed, wherever sums are rounded, with inputs converted to TF32 or 16
// bits, and also in tensor cores, which truncate aligned addends, but never below the 24th bit
// (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, 2021). So two direct
// engines agree in every bit, and the tolerance is 0, also where pieces round partials to the
// tensors' type before they are summed.
//
// Winograd and FFT engines round. Each of the T terms of an output element passes through
// transforms that amplify its rounding errors. The errors are modelled as independent with mean 0
// (Higham, Mary: A new approach to probabilistic rounding error analysis, 2019), so their squares
// add up:
//   sigma^2 = (a m)^2 (T (S uc^2 + 2 us^2) + T^2 uc^2 / 2)
// with m = 2 the largest term, S the number of roundings that a term meets in arithmetic of unit
// roundoff uc, two roundings of stored transforms (us), and the last summand for adding up T
// amplified terms. The amplification a is the largest entry of sqrt(sum_t (A_it G_tj)^2 |B_t|^2),
// squared for two dimensions. It is 79.4 for F(4x4, 3x3) and F(3x3, 4x4) (points 0, 1, -1, 2, -2,
// inf) and 114.2 for tiles of eight (1/2 and -1/2 added), the largest that cuDNN is known to use
// (3x3 and 5x5 filters). An FFT's error grows only with sqrt(log2 of its length) (Schatzman:
// Accuracy of the discrete Fourier transform and the fast Fourier transform, 1996): three
// transforms of 2^16 points amplify by less than 16. Two engines differ by at most kDeviations
// sqrt(2) sigma, and by the rounding of the output (one unit in its last place, relatively
// 2^(1-p)).
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/numeric_class.h"
#include "convolution/problem.h"

namespace ucudnn::tuning {

// Elements a and b agree if |a - b| <= absolute + relative * max(|a|, |b|). NaN and infinity agree
// with nothing or, if `specials_agree` because the data are a caller's, with each other.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
  bool specials_agree = false;
};

// Returns the coarsest class among the legacy engines of `runs`; fails if a run has another engine.
Result<NumericClass> CoarsestClass(Operation operation, std::span<const Run> runs);

// Returns the bits of the significand, including the hidden one: integers up to 2^bits are exact.
int PrecisionBits(DataType type);

// Returns how many nonzero terms an output element of `problem` may have so that its sums are
// exact.
int64_t MaxExactTerms(const ConvolutionProblem& problem);

// Returns the most terms that an output element of `problem` has.
int64_t ReductionLength(const ConvolutionProblem& problem);

// Returns the tolerance for integer operands with at most `terms` terms in an output element.
// `numeric` is the coarser class of the two results' engines.
Tolerance IntegerTolerance(const ConvolutionProblem& problem, NumericClass numeric, int64_t terms);

// Returns whether wrong results show: false if the tolerance exceeds the root mean square of an
// output element, sqrt(2.5 terms), since squares of +-1 and +-2 average 2.5. Unrelated results
// differ by about that.
bool Discriminates(const Tolerance& tolerance, int64_t terms);
// Returns IntegerTolerance; fails if Discriminates is false for it.
Result<Tolerance> DiscriminatingTolerance(const ConvolutionProblem& problem, NumericClass numeric,
                                          int64_t terms);

// Returns the tolerance for data of any kind. Of the data only `largest` is known, the largest
// magnitude in the undivided result. With sums of R terms whose signs are random, partial sums are
// about as large as the results, and `largest` is at least q, the root of the sum of the squared
// terms. Then (notation and independence as above)
//   sigma^2 = (a q)^2 (S uc^2 + 2 us^2 + R uc^2 / 2).
// A direct engine has a = 1, S = 1, and us only if fp32 inputs may be converted. Partials that are
// rounded to the tensors' type before they are summed (convolution/partial_sums.h) add (u q)^2,
// with u the unit roundoff of that type.
//
// Sums that cancel have partial sums far above every result, so they round more. The tolerance
// allows kCancellation times as much; sums that cancel still more may be reported although they are
// right. A bound that holds for all data would find nothing: it grows with the sum of |x||w|, which
// for gradients of filters is 1000 times the result.
Tolerance DataTolerance(const ConvolutionProblem& problem, NumericClass numeric, double largest);

}  // namespace ucudnn::tuning
