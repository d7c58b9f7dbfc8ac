// Bounds how far batch normalisation of slices may differ from batch normalisation of the whole
// tensor on the stand-in, whose sums are fp64. The bounds are of first order in u and t. u is the
// unit roundoff of statistics: that of fp64 for fp64 tensors, otherwise that of fp32. t is the unit
// roundoff of 16-bit tensors, and 0 for other tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/spatial/norm_case.h"

namespace ucudnn::test {

inline double Largest(const HostTensor& tensor) {
  double largest = 0;
  for (const double value : tensor.values) largest = std::max(largest, std::abs(value));
  return largest;
}

struct NormBounds {
  double mean, variance, inverse;            // of statistics
  double y, running_mean, running_variance;  // of a training step
  double dscale, dbias, dx;                  // of a gradient
  // REQUIRES: the inverse standard deviations of the whole tensor are at most the largest of
  // `inverses`.
  NormBounds(const NormCase& of, const HostTensor& inverses) {
    const double u = of.type == DataType::kDouble ? 0x1p-53 : 0x1p-24;
    const double t = of.type == DataType::kHalf       ? 0x1p-11
                     : of.type == DataType::kBfloat16 ? 0x1p-8
                                                      : 0;
    const double slices = static_cast<double>(of.slices.size());
    const double n = of.type == DataType::kDouble ? of.count() : 0;  // fp64 sums round, too
    const double x = Largest(of.x), i = Largest(inverses), scale = Largest(of.scale);
    const double alpha = std::abs(of.alpha), beta = std::abs(of.beta);

    // The error of a slice's mean, and of the whole tensor's mean, is at most `one`. Slices' means
    // are added relative to the first slice's mean, from which they differ by at most 2 x. This
    // weighted sum of differences has one product and one addition for each slice.
    const double one = (1 + n) * u * x;
    const double shift = 2 * one + (2 * slices + 6) * u * x;
    mean = 2 * one + shift + u * x;
    // The mean of a slice deviates from the mean of the whole tensor by at most 2 x. A biased
    // variance is at most x^2. It is the mean of squares, each of which is at most 4 x^2.
    const double deviation = 2 * one + shift + 4 * u * x;
    const double own_variance = (n + 7) * 4 * u * x * x;
    variance = 5 * x * deviation + (12 + 10 * slices) * u * x * x + 2 * own_variance;
    inverse = i * (i * i * variance + 3 * u);  // (1 - z)^-1/2 - 1 <= z where z <= 1/2
    EXPECT_LE(i * i * variance, 0.5);

    const double results = alpha * (scale * 2 * x * i + Largest(of.bias)) + beta * Largest(of.y);
    y = alpha * scale * (mean * i + 2 * x * inverse) + (4 * u + 2 * t) * results;
    const double unbiased = of.count() > 1 ? of.count() / (of.count() - 1) : 1;
    running_mean =
        of.factor * mean + 6 * u * (of.factor * x + std::abs(1 - of.factor) * Largest(of.mean));
    running_variance =
        of.factor * unbiased * variance +
        6 * u * (of.factor * unbiased * x * x + std::abs(1 - of.factor) * Largest(of.variance));

    // A gradient uses the saved statistics of the whole tensor. Normalised numbers are at most
    // `normal`. So in a channel of c elements dscale is at most c * slope * normal, and dbias at
    // most c * slope.
    const double slope = Largest(of.dy), normal = 2 * x * i;
    const double summing = (slices + 3 + 2 * n) * u;
    const double sums = std::abs(of.parameter_alpha) * of.count() * slope;
    const double kept = std::abs(of.parameter_beta);
    dscale = summing * sums * normal + 4 * u * (sums * normal + kept * Largest(of.dscale));
    dbias = summing * sums + 4 * u * (sums + kept * Largest(of.dbias));
    const double terms = alpha * scale * i * slope * (2 + normal * normal);
    const double before = beta * Largest(of.dx);
    dx = (slices + 10 + 2 * n) * 2 * u * terms + 8 * u * (3 * terms + before) +
         4 * t * (terms + before);
    if (of.is_saved) return;
    // If no statistics are saved, the gradient computes them again. Errors of these statistics
    // change normalised numbers by up to `moved`, and dx by up to the factor 1 + `stretched`.
    const double moved = mean * i + 2 * x * inverse, stretched = inverse / i;
    dscale += sums * moved;
    dx += terms * stretched + alpha * scale * i * slope * 3 * normal * moved;
  }
};

inline void ExpectNear(const HostTensor& one, const HostTensor& other, double bound,
                       const char* what) {
  ASSERT_EQ(one.extents, other.extents);
  for (size_t i = 0; i < one.values.size(); ++i) {
    ASSERT_NEAR(one.values[i], other.values[i], bound) << what << " " << i;
  }
}

// Expects that `numbers` have the same values on all ranks, and differ from those of `whole` by at
// most `bound`.
inline void ExpectShared(const std::vector<NormResult>& ranks, const NormResult& whole,
                         HostTensor NormResult::*numbers, double bound, const char* what) {
  for (const NormResult& rank : ranks) {
    EXPECT_EQ(rank.*numbers, ranks[0].*numbers) << what;
    ExpectNear(rank.*numbers, whole.*numbers, bound, what);
  }
}

// Compares the ranks' training step with `expected`, the undivided training step of `whole`.
inline void ExpectTrainedAs(const NormResult& expected, const NormCase& whole,
                            const std::vector<NormResult>& ranks) {
  const NormBounds bounds(whole, expected.saved_inverse);
  ExpectShared(ranks, expected, &NormResult::mean, bounds.running_mean, "running mean");
  ExpectShared(ranks, expected, &NormResult::variance, bounds.running_variance, "running variance");
  ExpectShared(ranks, expected, &NormResult::saved_mean, bounds.mean, "saved mean");
  ExpectShared(ranks, expected, &NormResult::saved_inverse, bounds.inverse, "saved inverse");
  for (size_t slice = 0; slice < ranks.size(); ++slice) {
    ExpectNear(ranks[slice].y, whole.Slice(expected.y, slice), bounds.y, "y");
  }
}

// Compares the ranks' gradients with `expected`, the undivided gradients of `whole`. `whole` has
// the statistics that a training step saved.
inline void ExpectDifferentiatedAs(const NormResult& expected, const NormCase& whole,
                                   const std::vector<NormResult>& ranks) {
  const NormBounds bounds(whole, whole.saved_inverse);
  ExpectShared(ranks, expected, &NormResult::dscale, bounds.dscale, "dscale");
  ExpectShared(ranks, expected, &NormResult::dbias, bounds.dbias, "dbias");
  for (size_t slice = 0; slice < ranks.size(); ++slice) {
    ExpectNear(ranks[slice].dx, whole.Slice(expected.dx, slice), bounds.dx, "dx");
  }
}

}  // namespace ucudnn::test
