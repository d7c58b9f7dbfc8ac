#include "shim/host/engines/gemm.h"

#include <dnnl.h>

#include <algorithm>

namespace hostgpu {

bool Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  return dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb,
                    beta, c, ldc) == dnnl_success;
}

// oneDNN does not support fp64. Plain loops with a vectorised innermost loop are fast enough,
// because fp64 is not used for training.
bool Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    double* row = c + i * ldc;
    if (beta == 0) std::fill(row, row + n, 0.0);
    const double* a_row = transpose_a ? a + i : a + i * lda;
    const int64_t a_step = transpose_a ? lda : 1;
    if (transpose_b) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t l = 0; l < k; ++l) sum += a_row[l * a_step] * b[j * ldb + l];
        row[j] += sum;
      }
    } else {
      for (int64_t l = 0; l < k; ++l) {
        const double scale = a_row[l * a_step];
        for (int64_t j = 0; j < n; ++j) row[j] += scale * b[l * ldb + j];
      }
    }
  }
  return true;
}

}  // namespace hostgpu
