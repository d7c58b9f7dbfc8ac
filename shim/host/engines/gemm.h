// Row-major matrix products: C[m][n] = op(A)[m][k] * op(B)[k][n] + beta * C, with beta 0 or 1. op
// transposes the matrix if its flag is true. lda, ldb and ldc are the distances between stored
// rows. Inside a parallel loop the functions use only the calling thread. They return false if
// oneDNN reports an error (out of memory).
#pragma once

#include <cstdint>

namespace hostgpu {

bool Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

bool Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc);

}  // namespace hostgpu
