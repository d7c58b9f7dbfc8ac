/* Stands in for a cuDNN 9 and reports STAMP as its version, which identifies the copies that tests
 * put into different folders. */
#include <stddef.h>

size_t cudnnGetVersion(void) { return STAMP; }

int cudnnCreate(void** handle) {
  *handle = NULL;
  return 1;
}
