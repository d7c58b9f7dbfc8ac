/* This library gets a handle of an opened cuDNN and looks up every function on it, like the
 * compiled part of the cudnn Python package. UseHandle returns 1 if a function of cuDNN 9 is not
 * found, or a function that cuDNN 9 lacks is found. */
#include <dlfcn.h>
#include <string.h>

#include "use_cudnn.h"

int UseHandle(void* cudnn) {
  CreateFunction create = (CreateFunction)dlsym(cudnn, "cudnnCreate");
  VersionFunction version = (VersionFunction)dlsym(cudnn, "cudnnGetVersion");
  if (create == NULL || version == NULL) return 1;
  if (dlsym(cudnn, "cudnnNoSuchFunction") != NULL) return 1;
  const char* const error = dlerror();
  if (error == NULL || strstr(error, "cudnnNoSuchFunction") == NULL) return 1;
  return UseCudnn(create, version);
}
