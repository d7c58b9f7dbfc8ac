// The inner loops of convolutions on the host: rows of numbers against a row of taps. Each sum adds
// its terms in one fixed order, without fused multiply-adds. Therefore results have the same bits
// on every x86-64 processor.
#pragma once

#include <cstdint>

namespace ucudnn::multigrid {

// Computes out[i] += sum over t < taps of weights[t] * in[i + t * distance], for i < count.
void AddCorrelation(const double* in, const double* weights, int taps, int distance, double* out,
                    int64_t count);

// Computes sums[t] += sum over i < count of a[i] * b[i + t * distance], for t < taps. Each sum is
// split into four partial sums.
void AddDotProducts(const double* a, const double* b, int taps, int distance, double* sums,
                    int64_t count);

}  // namespace ucudnn::multigrid
