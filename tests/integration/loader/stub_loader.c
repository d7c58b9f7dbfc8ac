/* TensorFlow and XLA have stubs with the names of cuDNN's functions. At the first call, a stub
 * opens cuDNN by its soname with RTLD_LOCAL; every stub looks up its function on this handle.
 * TensorFlow's libraries export the stubs (EXPORTED), XLA's hide them. */
#include <dlfcn.h>
#include <stdlib.h>

#include "use_cudnn.h"

#ifdef EXPORTED
#define STUB __attribute__((visibility("default")))
#else
#define STUB __attribute__((visibility("hidden")))
#endif

static void* Resolve(const char* name) {
  static void* cudnn = NULL;
  if (cudnn == NULL) cudnn = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  void* const function = cudnn != NULL ? dlsym(cudnn, name) : NULL;
  if (function == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return function;
}

STUB cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return ((CreateFunction)Resolve("cudnnCreate"))(handle);
}

STUB size_t cudnnGetVersion(void) { return ((VersionFunction)Resolve("cudnnGetVersion"))(); }

__attribute__((visibility("default"))) int UseLinkedCudnn(void) {
  return UseCudnn(cudnnCreate, cudnnGetVersion);
}
