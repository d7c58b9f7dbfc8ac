/* A cuDNN 9 that says which copy it is: tests of the search put one in every place. */
#include <stddef.h>

size_t cudnnGetVersion(void) { return STAMP; }

int cudnnCreate(void** handle) {
  *handle = NULL;
  return 1;
}
