/* The signature of the fake library's functions, and the arguments they expect. */
#pragma once

#define FAKE_PARAMETERS                                                                         \
  long i0, long i1, long i2, long i3, long i4, long i5, long i6, long i7, double d0, double d1, \
      double d2, double d3, double d4, double d5, double d6, double d7, double d8, double d9
#define FAKE_NAMES i0, i1, i2, i3, i4, i5, i6, i7, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9
#define FAKE_INTEGER(i) (0x0123456789abcdefL + (i))
#define FAKE_REAL(i) ((i) + 0.5)
#define FAKE_ARGUMENTS                                                                             \
  FAKE_INTEGER(0), FAKE_INTEGER(1), FAKE_INTEGER(2), FAKE_INTEGER(3), FAKE_INTEGER(4),             \
      FAKE_INTEGER(5), FAKE_INTEGER(6), FAKE_INTEGER(7), FAKE_REAL(0), FAKE_REAL(1), FAKE_REAL(2), \
      FAKE_REAL(3), FAKE_REAL(4), FAKE_REAL(5), FAKE_REAL(6), FAKE_REAL(7), FAKE_REAL(8),          \
      FAKE_REAL(9)
