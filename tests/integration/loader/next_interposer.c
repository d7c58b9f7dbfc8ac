/* When preloaded, this library replaces puts and calls the next library's puts, as profilers and
 * allocators do with other functions. If the dlsym hook hid that this library is the caller, dlsym
 * would return this library's own puts. */
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
