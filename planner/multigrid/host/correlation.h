// The inner loops of convolutions on the host: rows of numbers against a row of taps. Sums run over
// the taps in their order whatever the processor is: its vectors hold other outputs.
#pragma once

#include <cstdint>

namespace ucudnn::multigrid {

// out[i] += sum over t < taps of weights[t] * in[i + t * distance], for i < count.
void AddCorrelation(const double* in, const double* weights, int taps, int distance, double* out,
                    int64_t count);

// sums[t] += sum over i < count of a[i] * b[i + t * distance], for t < taps: in partial sums of
// four.
void AddDotProducts(const double* a, const double* b, int taps, int distance, double* sums,
                    int64_t count);

}  // namespace ucudnn::multigrid
