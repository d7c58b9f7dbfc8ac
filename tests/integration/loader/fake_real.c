/* This library looks like cuDNN 9. Each of its functions checks all the ways in which arguments
 * travel (six integer registers, eight vector registers, the stack) and returns its index, or -1.
 */
#include "fake_real.h"

static long Check(long index, FAKE_PARAMETERS) {
  const long integers[] = {i0, i1, i2, i3, i4, i5, i6, i7};
  const double reals[] = {d0, d1, d2, d3, d4, d5, d6, d7, d8, d9};
  for (int i = 0; i < 8; ++i) {
    if (integers[i] != FAKE_INTEGER(i)) return -1;
  }
  for (int i = 0; i < 10; ++i) {
    if (reals[i] != FAKE_REAL(i)) return -1;
  }
  return index;
}

#define EXPORT(index, name, kind)                                    \
  __attribute__((visibility("default"))) long name(FAKE_PARAMETERS); \
  long name(FAKE_PARAMETERS) { return Check(index, FAKE_NAMES); }
#include "exports.inc"
