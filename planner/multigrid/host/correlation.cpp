#include "planner/multigrid/host/correlation.h"

#include <algorithm>

namespace ucudnn::multigrid {
namespace {

// Number of outputs that the registers of any processor can hold at once. The outputs that remain
// in a row are computed one by one.
constexpr int kTogether = 8;

template <int kTaps>
[[gnu::always_inline]] inline void CorrelateRow(const double* in, const double* weights,
                                                int distance, double* out, int64_t count) {
  int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    double sums[kTogether];
    for (int j = 0; j < kTogether; ++j) sums[j] = out[i + j];
    for (int t = 0; t < kTaps; ++t) {
      const double* const from = in + i + t * distance;
      for (int j = 0; j < kTogether; ++j) sums[j] += weights[t] * from[j];
    }
    for (int j = 0; j < kTogether; ++j) out[i + j] = sums[j];
  }
  for (; i < count; ++i) {
    double sum = out[i];
    for (int t = 0; t < kTaps; ++t) sum += weights[t] * in[i + t * distance];
    out[i] = sum;
  }
}

[[gnu::always_inline]] inline void Correlate(const double* in, const double* weights, int taps,
                                             int distance, double* out, int64_t count) {
  switch (taps) {
    case 3:
      return CorrelateRow<3>(in, weights, distance, out, count);
    case 5:
      return CorrelateRow<5>(in, weights, distance, out, count);
    case 7:
      return CorrelateRow<7>(in, weights, distance, out, count);
    default:
      for (int t = 0; t < taps; ++t) {
        CorrelateRow<1>(in + t * distance, weights + t, distance, out, count);
      }
  }
}

// Number of taps whose partial sums fit the registers.
constexpr int kTapsTogether = 4;
constexpr int kPartialSums = 4;

template <int kTaps>
[[gnu::always_inline]] inline void DotRows(const double* a, const double* b, int distance,
                                           double* sums, int64_t count) {
  double partial[kTaps][kPartialSums] = {};
  int64_t i = 0;
  for (; i + kPartialSums <= count; i += kPartialSums) {
    for (int t = 0; t < kTaps; ++t) {
      for (int j = 0; j < kPartialSums; ++j) {
        partial[t][j] += a[i + j] * b[i + j + t * distance];
      }
    }
  }
  for (int t = 0; t < kTaps; ++t) {
    double rest = 0;
    for (int64_t k = i; k < count; ++k) rest += a[k] * b[k + t * distance];
    sums[t] += (partial[t][0] + partial[t][1]) + (partial[t][2] + partial[t][3]) + rest;
  }
}

[[gnu::always_inline]] inline void DotProducts(const double* a, const double* b, int taps,
                                               int distance, double* sums, int64_t count) {
  int t = 0;
  for (; t + kTapsTogether <= taps; t += kTapsTogether) {
    DotRows<kTapsTogether>(a, b + t * distance, distance, sums + t, count);
  }
  for (; t < taps; ++t) DotRows<1>(a, b + t * distance, distance, sums + t, count);
}

#if defined(__x86_64__)
// These functions use wider registers, but no fused multiply-add. So their results have the same
// bits as the results of Correlate and DotProducts.
[[gnu::target("avx2")]] void CorrelateWide(const double* in, const double* weights, int taps,
                                           int distance, double* out, int64_t count) {
  Correlate(in, weights, taps, distance, out, count);
}
[[gnu::target("avx2")]] void DotProductsWide(const double* a, const double* b, int taps,
                                             int distance, double* sums, int64_t count) {
  DotProducts(a, b, taps, distance, sums, count);
}
bool HasWideRegisters() { return __builtin_cpu_supports("avx2") != 0; }
#endif

}  // namespace

void AddCorrelation(const double* in, const double* weights, int taps, int distance, double* out,
                    int64_t count) {
#if defined(__x86_64__)
  if (HasWideRegisters()) return CorrelateWide(in, weights, taps, distance, out, count);
#endif
  Correlate(in, weights, taps, distance, out, count);
}

void AddDotProducts(const double* a, const double* b, int taps, int distance, double* sums,
                    int64_t count) {
#if defined(__x86_64__)
  if (HasWideRegisters()) return DotProductsWide(a, b, taps, distance, sums, count);
#endif
  DotProducts(a, b, taps, distance, sums, count);
}

}  // namespace ucudnn::multigrid
