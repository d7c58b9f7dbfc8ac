/* What every loader test program does once it has cuDNN: one call that a hook answers in the tests'
 * libucudnn (see test_hooks.cpp), one that the real library answers. */
#pragma once

#include <cudnn.h>
#include <stdio.h>

typedef cudnnStatus_t(CUDNNWINAPI* CreateFunction)(cudnnHandle_t*);
typedef size_t(CUDNNWINAPI* VersionFunction)(void);

static inline int UseCudnn(CreateFunction create, VersionFunction version) {
  cudnnHandle_t handle = NULL;
  const int status = (int)create(&handle);
  printf("create=%d handle=%p version=%zu\n", status, (void*)handle, version());
  fflush(stdout);
  return 0;
}
