/* Another preloaded library, which passes puts on to the next one, as profilers and allocators do.
 * Where dlsym is told a wrong caller, it finds this library itself. */
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
