/* When preloaded, this library makes a machine look as if no cuDNN were installed. The drop-in's
 * search calls realpath for every path that it considers, and here realpath finds no cuDNN. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

char* realpath(const char* restrict path, char* restrict resolved) {
  static const char kName[] = "/libcudnn.so.9";
  const size_t length = strlen(path);
  if (length >= sizeof kName - 1 && strcmp(path + length - (sizeof kName - 1), kName) == 0) {
    errno = ENOENT;
    return NULL;
  }
  return ((char* (*)(const char*, char*))dlsym(RTLD_NEXT, "realpath"))(path, resolved);
}
