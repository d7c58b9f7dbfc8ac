/* Another preloaded library, which passes puts on to the one after itself: that is how profilers
 * and allocators are written. Where dlsym is told a wrong caller, the one after itself is itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

typedef int (*Puts)(const char*);

int puts(const char* text) {
  Puts next = (Puts)dlsym(RTLD_NEXT, "puts");
  if (next == puts || next == NULL) {
    fputs("the next puts is this one\n", stderr);
    return -1;
  }
  fputs("interposed: ", stdout);
  return next(text);
}
