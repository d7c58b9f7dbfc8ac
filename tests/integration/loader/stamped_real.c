/* This library stands for a cuDNN 9 and reports STAMP as its version, which tells the copies apart
 * that tests put in different folders. */
#include <stddef.h>

size_t cudnnGetVersion(void) { return STAMP; }

int cudnnCreate(void** handle) {
  *handle = NULL;
  return 1;
}
